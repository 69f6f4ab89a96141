"""Makes the files of this folder: small networks with random weights, as Larq Compute Engine writes and runs them.

Needs an environment of its own: pip install larq larq-compute-engine==0.16.0 tensorflow-cpu==2.16.1 tf-keras==2.16.0,
then TF_USE_LEGACY_KERAS=1 python make.py. The images of a network are those of `images`.
"""

from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent
COUNT = 32


def images(shape):
    return np.random.default_rng(0).normal(size=(COUNT, *shape)).astype(np.float32)


def main():  # noqa: PLR0915 - networks, which take TensorFlow
    import larq as lq
    import larq_compute_engine as lce
    import tensorflow as tf
    from tf_keras import Model, initializers, layers

    def binary(filters, size=3, quantizer="ste_sign", **more):
        said = {"kernel_quantizer": "ste_sign", "use_bias": False, "kernel_constraint": "weight_clip"}
        start = initializers.RandomUniform(-1, 1)
        return lq.layers.QuantConv2D(filters, size, input_quantizer=quantizer, kernel_initializer=start, **said, **more)

    def norm():
        return layers.BatchNormalization(momentum=0.5)

    same = {"padding": "same", "pad_values": 1}

    def chain():
        """Bits from layer to layer, padded with +1, pooled; a dense layer and a softmax."""
        x = start = layers.Input((12, 12, 3))
        x = norm()(layers.Conv2D(8, 3, padding="same", use_bias=False)(x))
        x = norm()(binary(16, **same)(x))
        x = norm()(layers.MaxPool2D(2)(binary(24, **same)(x)))
        x = norm()(binary(10, padding="valid")(x))
        x = layers.Dense(10)(layers.Flatten()(x))
        return Model(start, layers.Activation("softmax")(x))

    def residual():
        """Sums of real numbers, fused activations, padding with 0, PReLU, a strided pool with padding."""
        x = start = layers.Input((16, 16, 3))
        x = layers.Activation("relu")(norm()(layers.Conv2D(8, 3, strides=2, padding="same")(x)))
        for _ in range(2):
            x = layers.add([x, norm()(binary(8, activation="relu", **same)(x))])
        x = layers.MaxPool2D(3, 2, padding="same")(layers.Activation("relu")(x))
        x = norm()(layers.Conv2D(16, 1, use_bias=False)(x))
        y = layers.PReLU(shared_axes=[1, 2], alpha_initializer=initializers.RandomUniform(0, 0.5))(
            binary(16, padding="same", pad_values=0)(x)
        )
        x = layers.GlobalAvgPool2D()(layers.add([x, norm()(y)]))
        return Model(start, layers.Dense(5)(x))

    def dense():
        """Joined channels, dilation, a depthwise convolution, relu6, an average pool, 1x1."""
        x = start = layers.Input((10, 10, 1))
        x = norm()(layers.Conv2D(12, 3, activation="relu6")(x))
        x = layers.concatenate([x, norm()(binary(12, **same)(x))])
        x = layers.concatenate([x, norm()(binary(8, dilation_rate=2, **same)(x))])
        x = layers.AvgPool2D(2)(layers.DepthwiseConv2D(3, strides=2, padding="same")(x))
        x = norm()(binary(32, 1, padding="same")(x))
        x = layers.Dense(4, activation="relu")(layers.Flatten()(x))
        return Model(start, layers.Dense(3)(x))

    def pools():
        """Signs of their own that are pooled, a pad, strides, odd sides and channels."""
        x = start = layers.Input((13, 11, 3))
        x = norm()(layers.Conv2D(12, 3, strides=2)(layers.ZeroPadding2D(1)(x)))
        x = norm()(binary(33, strides=2, **same)(x))
        x = layers.MaxPool2D(2, padding="same")(lq.quantizers.SteSign()(x))
        x = norm()(binary(20, quantizer=None, **same)(x))
        x = layers.Activation("relu")(binary(9, 2, padding="valid")(x))
        x = layers.GlobalAvgPool2D()(layers.AvgPool2D(2, 1, padding="same")(x))
        return Model(start, layers.Dense(6)(x))

    for network in (chain, residual, dense, pools):
        tf.keras.utils.set_random_seed(1)
        made = network()
        shape = made.input_shape[1:]
        random = np.random.default_rng(3)
        for layer in made.layers:
            if isinstance(layer, layers.BatchNormalization):
                layer.gamma.assign(random.normal(0.5, 1, layer.gamma.shape))
                layer.beta.assign(random.normal(0, 0.5, layer.beta.shape))
        for _ in range(4):
            made(images(shape), training=True)
        file = lce.convert_keras_model(made)
        (FOLDER / f"{network.__name__}.tflite").write_bytes(file)
        scores = lce.testing.Interpreter(file).predict(images(shape))
        np.save(FOLDER / f"{network.__name__}.npy", scores)
        print(network.__name__, len(file), "bytes")


if __name__ == "__main__":
    main()
