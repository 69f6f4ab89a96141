from ftbnn.drawing import canvas
from ftbnn.experiments.curves import curves


def test_long_labels_take_no_room_from_the_axes(tmp_path):
    row = {"val_top1": 50.0, "train_top1": 55.0, "train_loss": 1.0}
    labels = {name: f"{name}: a training with a rather long description" for name in "abc"}
    records = [
        {"variant": name, "divergence": "", "chosen": "best on validation", "epochs": [row, row]} for name in labels
    ]
    with canvas(tmp_path / "curves.png") as axes:
        curves(axes, records, labels, train=True)
        axes.figure.canvas.draw()
        width = axes.get_position().width
    assert width > 0.8
