import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from bayou.spark.streaming.read_limits import RemainingLimits


def admit(admission, *sizes):
    return admission.admit(pa.array(sizes, pa.int64()))


@given(
    st.lists(st.integers(0, 50), max_size=30),
    st.one_of(st.none(), st.integers(1, 20)),
    st.one_of(st.none(), st.integers(1, 200)),
    st.integers(1, 7),
)
def test_files_come_in_while_there_is_room_before_them(sizes, files, size, piece):
    expected, held = 0, 0
    for number, one in enumerate(sizes):
        if (files is not None and number >= files) or (size is not None and held >= size):
            break
        held += one
        expected += 1
    admission, taken = RemainingLimits(files, size), 0
    for start in range(0, len(sizes), piece):
        part = sizes[start : start + piece]
        admitted = admit(admission, *part)
        taken += admitted
        if admitted < len(part):
            break
    assert taken == expected


def test_one_file_always_comes_in_and_the_last_may_overshoot():
    assert admit(RemainingLimits(1, 1), 10**12) == 1
    assert admit(RemainingLimits(None, 1300), 700, 700, 700) == 2


def test_files_that_belong_together_come_in_together_or_not_at_all():
    admission = RemainingLimits(3, None)
    assert admit(admission, 1) == 1
    assert not admission.admit_together(3, 3)
    assert not admission.has_room


def test_the_first_that_belong_together_come_in_however_many_they_are():
    assert RemainingLimits(1, 1).admit_together(5, 500)
    begun = RemainingLimits(1, 1)
    begun.begin()
    assert not begun.admit_together(5, 500)
