"""Admission of connections, for any order of events."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rheos.connectors.listener.admission import MAX_EXEMPT, ConnectionAdmission

MOVES = st.lists(
    st.tuples(st.sampled_from(["enter", "admit", "exempt", "settle", "leave"]), st.integers(0, 30)),
    max_size=60,
)


@settings(max_examples=100, deadline=None)
@given(MOVES, st.integers(1, 4), st.integers(1, 4))
def test_the_numbers_of_connections_are_bounded(
    moves: list[tuple[str, int]], waiting: int, admitted: int
) -> None:
    admission: ConnectionAdmission[int] = ConnectionAdmission(waiting, admitted)
    open_ones: list[int] = []
    served: set[int] = set()
    for number, (move, which) in enumerate(moves):
        peer = open_ones[which % len(open_ones)] if open_ones else None
        closed = None
        if move == "enter":
            open_ones.append(number)
            closed = admission.enter(number)
            assert closed != number
        elif peer is None:
            continue
        elif move == "admit" and peer not in served:
            if admission.admit(peer):
                served.add(peer)
            else:
                assert admission.counts().admitted == admitted
        elif move == "exempt" and peer not in served:
            closed = admission.exempt(peer)
        elif move == "settle":
            closed = admission.settle(peer)
            served.discard(peer)
        elif move == "leave":
            admission.leave(peer)
            open_ones.remove(peer)
            served.discard(peer)
        if closed is not None:
            assert closed not in served, "who has a place keeps it"
            open_ones.remove(closed)
        counts = admission.counts()
        assert counts.admitted == len(served) <= admitted
        assert counts.waiting == len(open_ones) - len(served) <= waiting + MAX_EXEMPT


def test_the_oldest_connection_is_closed_for_a_new_one() -> None:
    admission: ConnectionAdmission[str] = ConnectionAdmission(2, 1)
    assert [admission.enter(each) for each in "abc"] == [None, None, "a"]
    assert admission.admit("c")
    assert not admission.admit("b")
    assert admission.enter("d") is None
    assert admission.settle("c") == "b"
    assert admission.exempt("d") is None
    assert (admission.evict(), admission.evict()) == ("c", None)
    assert admission.counts().evicted == 3
