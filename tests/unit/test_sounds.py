"""Tones: where a pitch and a moment stand in the picture, and what does not change it."""

import os
import wave

import numpy as np
import pytest
from PIL import Image

from ftbnn import zoo
from ftbnn.cli.main import main
from ftbnn.data import load
from ftbnn.errors import UserError
from ftbnn.sounds import picture, read_wav


def tone(hz, *, rate=16000, seconds=1.0, start=0.0, end=10.0, loud=0.5):
    at = np.arange(int(rate * seconds)) / rate
    return loud * np.sin(2 * np.pi * hz * at) * ((start <= at) & (at < end))


def write(path, samples, rate=16000, *, size=2, channels=1):
    numbers = np.rint(np.asarray(samples) * (2 ** (8 * size - 1) - 1)).astype(np.int64) + (128 if size == 1 else 0)
    data = numbers.astype("<i8").view(np.uint8).reshape(-1, 8)[:, :size]
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, size, rate, 0, "NONE", ""))
        file.writeframes(np.repeat(data, channels, axis=0).tobytes())
    return path


def mel(hz):
    return 2595 * np.log10(1 + hz / 700)


@pytest.mark.parametrize("hz", [200, 440, 1000, 3000])
@pytest.mark.parametrize("rate", [8000, 16000, 44100])
def test_a_tone_is_a_line_at_its_pitch(hz, rate):
    rows = 32
    found = picture(tone(hz, rate=rate), rate, rows=rows, columns=32)
    assert found.shape == (rows, 32)
    band = (mel(hz) - mel(50)) / (mel(4000) - mel(50)) * (rows + 1) - 1  # corners are evenly spread, bands between
    assert (abs(rows - 1 - found[:, 4:28].argmax(0) - band) <= 1).all()
    assert (found.max(0)[4:28] >= 250).all()


def test_a_moment_is_a_column():
    found = picture(tone(1000, start=0.5, end=0.75), 16000, rows=32, columns=32)
    loud = np.flatnonzero(found.max(0) > 200)
    assert 15 <= loud.min() <= 16
    assert 23 <= loud.max() <= 24


def test_neither_rate_nor_loudness_changes_the_picture():
    of = {
        rate: picture(tone(700, rate=rate) + tone(1900, rate=rate), rate, rows=40, columns=40) for rate in (8000, 16000)
    }
    assert np.abs(of[8000].astype(int) - of[16000])[:, 2:-2].mean() < 4, "grey values of 255"
    quiet = picture(tone(700, loud=0.01), 16000, rows=40, columns=40)
    assert np.abs(quiet.astype(int) - picture(tone(700, loud=0.9), 16000, rows=40, columns=40)).max() <= 1


def test_of_a_long_sound_the_loudest_second_counts_and_a_short_one_is_in_the_middle():
    long = np.concatenate([tone(300, loud=0.1), tone(1000), tone(300, loud=0.1)])
    expected = picture(tone(1000), 16000, rows=32, columns=32)
    assert np.abs(picture(long, 16000, rows=32, columns=32).astype(int) - expected).max() <= 1
    short = picture(tone(1000, seconds=0.25), 16000, rows=32, columns=32)
    assert 11 <= np.flatnonzero(short.max(0) > 200).mean() <= 20
    assert not picture(np.zeros(100), 16000, rows=8, columns=8).any(), "silence is black"


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("channels", [1, 2])
def test_pcm_of_every_width_is_the_same_sound(tmp_path, size, channels):
    samples, rate = read_wav(write(tmp_path / "a.wav", tone(440), size=size, channels=channels))
    assert rate == 16000
    assert samples.dtype == np.float32
    np.testing.assert_allclose(samples, tone(440), atol=2.0 ** (2 - 8 * min(size, 3)))


def test_what_is_no_sound_is_one_line(tmp_path):
    (tmp_path / "text.wav").write_text("no sound")
    for path, message in (
        (tmp_path / "text.wav", "cannot be read as a sound"),
        (tmp_path / "none.wav", "no sound at"),
        (write(tmp_path / "empty.wav", []), "holds no sound"),
        (write(tmp_path / "low.wav", tone(100, rate=4000), rate=4000), "4000 samples a second"),
    ):
        with pytest.raises(UserError, match=message):
            read_wav(path)


def damaged(path, at, number):
    """A sound whose header has another number of 32 bits there."""
    data = bytearray(write(path, tone(440)).read_bytes())
    data[at : at + 4] = number.to_bytes(4, "little")
    path.write_bytes(data)
    return path


def test_damaged_headers_and_pipes_are_one_line_each_and_the_others_are_answered(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe.wav")
    for path, message in (
        (damaged(tmp_path / "40.wav", 32, 5 | 40 << 16), "samples of 40 bits; more than 32 are not read"),
        (damaged(tmp_path / "64.wav", 32, 8 | 64 << 16), "samples of 64 bits"),
        (damaged(tmp_path / "rate.wav", 24, 2**31 - 1), "2147483647 samples a second; more than 1000000"),
        (damaged(tmp_path / "beyond.wav", 16, 2**31), "PCM in a WAV file.: it is damaged"),
        (tmp_path / "pipe.wav", "pipe.wav cannot be read as a sound: it is not a file"),
    ):
        with pytest.raises(UserError, match=message) as caught:
            read_wav(path)
        assert "\n" not in str(caught.value)
    files = [*sorted(tmp_path.iterdir()), write(tmp_path / "a.wav", tone(440))]
    assert main(["predict", "zoo:digits", *map(str, files)]) == 2
    out, err = capsys.readouterr()
    assert "a.wav" in out
    assert err.count("\nftbnn predict: ") == 4  # a line for each of five
    with pytest.raises(UserError, match="8000 to 1000000 a second"):
        picture(np.ones(10), 2**31 - 1, rows=8, columns=8)


def test_folders_of_sounds_and_spoken_digits_are_data(tmp_path):
    for part, count in (("train", 3), ("val", 1), ("test", 2)):
        for word, hz in (("high", 2000), ("low", 300)):
            for number in range(count):
                write(tmp_path / "words" / part / word / f"{number}.wav", tone(hz + number))
    source = load("sounds", tmp_path / "words", image_size=16)
    assert source.spec.class_names == ("high", "low")
    assert [len(split) for split in (source.train, source.val, source.test)] == [6, 2, 4]
    assert source.train.images.shape == (6, 1, 16, 16)
    assert source.train.labels.tolist() == [0, 0, 0, 1, 1, 1]
    for name in ("7_jane_0", "7_jane_4", "3_jane_5", "9_joe_49"):
        write(tmp_path / "digits" / "recordings" / f"{name}.wav", tone(500, rate=8000), rate=8000)
    source = load("sounds", tmp_path / "digits")
    assert source.test.labels.tolist() == [7, 7]
    assert source.train.labels.tolist() == [3, 9]
    assert source.val is None
    with pytest.raises(UserError, match="no folder train"):
        load("sounds", tmp_path)
    (tmp_path / "words" / "train" / "none").mkdir()
    with pytest.raises(UserError, match=r"train has no \*.wav of none: add some"):
        load("sounds", tmp_path / "words")


def test_a_sound_is_predicted_as_its_picture(tmp_path, capsys):
    """Any network of grey pictures looks at it."""
    sound = write(tmp_path / "a.wav", tone(440))
    _, rows, columns = zoo.card("digits")["input"]
    Image.fromarray(picture(*read_wav(sound), rows=rows, columns=columns)).save(tmp_path / "a.png")
    assert main(["predict", "zoo:digits", str(sound)]) == 0
    heard = capsys.readouterr().out
    assert main(["predict", "zoo:digits", str(tmp_path / "a.png")]) == 0
    assert heard.splitlines()[1:] == capsys.readouterr().out.splitlines()[1:]
    assert main(["predict", "zoo:cifar10", str(sound)]) == 2
    assert "a grey picture; the network takes 3 channels" in capsys.readouterr().err
