"""Frames out of a stream that comes in pieces."""

from hypothesis import given
from hypothesis import strategies as st

from workorders.core.worker.ipc import Frame, FrameReader

FRAMES = st.lists(st.builds(Frame, st.lists(st.text() | st.integers(0, 9) | st.none()), st.binary(), st.binary()))


@given(FRAMES, st.integers(1, 50))
def test_frames_come_out_as_they_went_in_however_the_stream_is_cut(frames: list[Frame], piece: int) -> None:
    stream = b"".join(frame.encode() for frame in frames)
    reader = FrameReader()
    found = [frame for start in range(0, len(stream), piece) for frame in reader.feed(stream[start : start + piece])]
    assert found == frames
