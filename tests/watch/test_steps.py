"""Marks become steps whose seconds sum to the step, whatever a loop looks like."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncwall.cause import Cause
from syncwall.watch.events import StepRecord
from syncwall.watch.rings import COLLECTIVES, Mark, MarkKind, RingNote
from syncwall.watch.steps import StepMaker

MS = 1_000_000
PLAIN = "DATA_BEGIN DATA_END BACKWARD_BEGIN LAST_GRADIENT BACKWARD_END OPTIMIZER_BEGIN END"


def marks(*words: str, start: int = 0, apart_ns: int = MS):
    """Marks a millisecond apart; END is an `OPTIMIZER_END` that ends a step, KIND=3 has a value."""
    found = []
    for number, word in enumerate(" ".join(words).split()):
        name, _, value = word.partition("=")
        argument = 1 if name == "END" else 0
        kind = MarkKind["OPTIMIZER_END" if name == "END" else name]
        found.append(Mark(number, kind, start + number * apart_ns, float(value or 0), argument))
    return found


def steps(*words: str) -> list[StepRecord]:
    return list(StepMaker(3).take(marks("START END", *words)))


def ms(step: StepRecord) -> dict[Cause, float]:
    return {cause: round(seconds * 1e3) for cause, seconds in step.seconds.items()}


def test_a_plain_step():
    (step,) = steps(PLAIN)
    assert (step.rank, step.step, step.step_s) == (3, 0, 0.007)
    assert ms(step) == {
        Cause.REST: 1,
        Cause.IDLE_DATA: 1,
        Cause.FORWARD: 1,
        Cause.BACKWARD: 1,
        Cause.EXPOSED_DP: 1,
        Cause.OPTIMIZER: 2,
    }


def test_without_a_data_loader_what_comes_before_is_the_forward_pass():
    (step,) = steps("WAIT_BEGIN WAIT_END BACKWARD_BEGIN BACKWARD_END OPTIMIZER_BEGIN END")
    assert ms(step)[Cause.FORWARD] == 2
    assert Cause.REST not in step.seconds


def test_accumulated_gradients_add_up():
    (step,) = steps("DATA_BEGIN DATA_END BACKWARD_BEGIN BACKWARD_END", PLAIN)
    assert (ms(step)[Cause.FORWARD], ms(step)[Cause.BACKWARD], ms(step)[Cause.REST]) == (2, 2, 2)


def test_other_optimizers_end_no_step():
    first, second = steps(PLAIN, "BACKWARD_BEGIN BACKWARD_END OPTIMIZER_BEGIN OPTIMIZER_END", PLAIN)
    assert (first.step_s, second.step_s) == (0.007, 0.011)


def test_an_optimizer_with_a_closure_contains_the_passes():
    """As Lightning calls it."""
    (step,) = steps("DATA_BEGIN DATA_END OPTIMIZER_BEGIN BACKWARD_BEGIN BACKWARD_END END")
    assert ms(step) == {
        Cause.REST: 1,
        Cause.IDLE_DATA: 1,
        Cause.FORWARD: 2,
        Cause.OPTIMIZER: 1,
        Cause.BACKWARD: 1,
    }
    words = "OPTIMIZER_BEGIN FORWARD_BEGIN FORWARD_END BACKWARD_BEGIN BACKWARD_END END"
    (step,) = steps("DATA_BEGIN DATA_END", words)
    assert (ms(step)[Cause.FORWARD], ms(step)[Cause.OPTIMIZER]) == (3, 2)  # with gradients set to 0


def test_a_loop_that_reads_its_batches_itself_waits_for_data_before_its_model():
    found = steps("FORWARD_BEGIN FORWARD_END BACKWARD_BEGIN BACKWARD_END OPTIMIZER_BEGIN END")
    assert (ms(found[0])[Cause.IDLE_DATA], ms(found[0])[Cause.FORWARD]) == (1, 2)
    assert Cause.REST not in found[0].seconds
    words = "DATA_BEGIN DATA_END FORWARD_BEGIN FORWARD_END BACKWARD_BEGIN BACKWARD_END OPTIMIZER_BEGIN END"
    _, second = steps(words, words)  # with a loader, it is the loop's
    assert (ms(second)[Cause.IDLE_DATA], ms(second)[Cause.REST]) == (1, 1)


@pytest.mark.parametrize("stalls", ["before", "behind"])
def test_a_stall_of_a_loop_is_data_before_and_behind_the_forward_pass(stalls):
    """nanoGPT fetches the next batch between the forward and the backward pass."""
    maker = StepMaker(0)
    plain = ["FORWARD_BEGIN", "FORWARD_END", "BACKWARD_BEGIN", "BACKWARD_END", "OPTIMIZER_BEGIN", "END"]
    late = {"before": 0, "behind": 2}[stalls]
    made, number = marks("START END"), 2
    for step in range(8):
        for place, word in enumerate(plain):
            number += 5_000 if step == 6 and place == late else 1
            made += marks(word, start=number * MS)
    found = list(maker.take(made))
    assert all(ms(one).get(Cause.IDLE_DATA, 0) < 3 for one in found if one.step != 6)
    assert ms(found[6])[Cause.IDLE_DATA] > 4_900
    assert ms(found[6])[Cause.FORWARD] < 100


def test_an_optimizer_in_a_hook_leaves_the_backward_pass_what_it_is():
    (step,) = steps("BACKWARD_BEGIN OPTIMIZER_BEGIN OPTIMIZER_END BACKWARD_END OPTIMIZER_BEGIN END")
    assert ms(step)[Cause.BACKWARD] == 2


def test_a_skipped_step_is_one():
    (step,) = steps("DATA_BEGIN DATA_END BACKWARD_BEGIN BACKWARD_END STEP_SKIPPED")
    assert step.skipped
    assert ms(step)[Cause.OPTIMIZER] == 1


def test_waits_inside_of_phases_are_communication():
    words = "BACKWARD_BEGIN WAIT_BEGIN WAIT_BEGIN WAIT_END WAIT_END BACKWARD_END OPTIMIZER_BEGIN END"
    (step,) = steps(words)
    assert ms(step)[Cause.exposed(COLLECTIVES[0])] == 3
    assert ms(step)[Cause.BACKWARD] == 2


def test_what_a_collective_waits_for_inside_is_its_own():
    """A synchronous `all_reduce` calls `Work.wait`."""
    inside = Mark(1, MarkKind.WAIT_BEGIN, 3 * MS, 0.0, COLLECTIVES.index("other"))
    begun = marks("START END WAIT_BEGIN")
    (step,) = StepMaker(0).take([*begun, inside, *marks("WAIT_END WAIT_END", PLAIN, start=4 * MS)])
    assert Cause.exposed("other") not in step.seconds
    assert ms(step)[Cause.exposed(COLLECTIVES[0])] == 3


def test_checkpoints_go_before_waits_and_evaluations():
    (step,) = steps("EVALUATION_BEGIN SAVE_BEGIN WAIT_BEGIN WAIT_END SAVE_END EVALUATION_END", PLAIN)
    assert ms(step)[Cause.CHECKPOINT] == 3
    assert ms(step)[Cause.EVALUATION] == 2
    assert step.own_s == pytest.approx(0.007)


def test_an_evaluation_that_nobody_ends_ends_with_the_batch_that_is_trained_on():
    (step,) = steps("EVALUATION_BEGIN DATA_BEGIN DATA_END DATA_BEGIN DATA_END", PLAIN)
    assert ms(step)[Cause.EVALUATION] == 5
    assert (ms(step)[Cause.IDLE_DATA], ms(step)[Cause.FORWARD]) == (1, 1)


def test_values_are_told_within_a_step():
    words = "LOSS=2 LOSS=1.5 TOKENS=100 TOKENS=28 GRADIENT_NORM=0.5"
    first, second = steps(words, PLAIN, PLAIN)
    assert (first.loss, first.tokens, first.gradient_norm) == (1.5, 128, 0.5)
    assert (second.loss, second.tokens) == (None, None)
    maker = StepMaker(0)
    parts = [Mark(9, MarkKind.LOSS, 0, value, 1) for value in (0.25, 0.5)]
    (step,) = maker.take([*marks("START END"), *parts, *marks(PLAIN, start=9 * MS)])
    assert step.loss == 0.75


def test_after_lost_marks_steps_keep_their_numbers():
    """The writer counts them; what was open when marks were lost is not summed up."""
    maker, ended = StepMaker(0), {"kind": MarkKind.OPTIMIZER_END, "argument": 1}

    def end(number: int, time_ns: int) -> list[StepRecord]:
        return list(maker.take([Mark(0, time_ns=time_ns, value=float(number), **ended)]))

    assert end(0, 10) == []
    assert [one.step for one in end(1, 20)] == [0]
    list(maker.take(marks("WAIT_BEGIN", start=30)))
    maker.lost_some()
    assert end(7, 100) == []
    assert maker.phase == "between phases"
    assert [(one.step, one.step_s) for one in end(8, 150)] == [(7, 5e-8)]
    assert maker.step == 8


def test_a_note_hides_own_time():
    note = Mark(0, MarkKind.NOTE, 0, 0.0, RingNote.OLD_FSDP)
    (step,) = StepMaker(0).take([note, *marks("START END", PLAIN)])
    assert not step.own_is_known


@pytest.mark.parametrize(
    ("words", "phase"),
    [
        ("", "starting"),
        ("START", "starting"),
        ("START END", "between phases"),
        ("START END DATA_BEGIN", "data"),
        ("START END DATA_BEGIN DATA_END", "forward"),
        ("START END BACKWARD_BEGIN", "backward"),
        ("START END BACKWARD_BEGIN LAST_GRADIENT", "exposed communication"),
        ("START END BACKWARD_BEGIN BACKWARD_END", "optimizer"),
        ("START END WAIT_BEGIN", "exposed communication"),
        ("START END SAVE_BEGIN WAIT_BEGIN", "checkpoint"),
        ("START END EVALUATION_BEGIN DATA_BEGIN", "evaluation"),
        ("START END FORWARD_BEGIN", "forward"),
        ("START END FORWARD_BEGIN FORWARD_END", "between phases"),
        ("START END EXIT", "ended"),
    ],
)
def test_where_a_rank_stands(words, phase):
    maker = StepMaker(0)
    list(maker.take(marks(words)))
    assert maker.phase == phase


def test_silences_of_checkpoints_do_not_count():
    maker = StepMaker(0)
    list(maker.take(marks("START END SAVE_BEGIN")))
    saved = marks("SAVE_END", PLAIN, start=3_000 * MS)
    assert len(list(maker.take(saved))) == 1
    assert maker.longest_silence_ns == MS


@given(st.lists(st.tuples(st.sampled_from(MarkKind), st.integers(0, 10**9), st.integers(0, 9))))
def test_seconds_always_sum_to_the_step(given_marks):
    time_ns, made = 9, marks("START END", apart_ns=1)
    for kind, apart_ns, argument in [*given_marks, (MarkKind.OPTIMIZER_END, 5, 1)]:
        time_ns += apart_ns
        made.append(Mark(len(made), kind, time_ns, 0.0, argument))
    found = list(StepMaker(0).take(made))
    assert found
    for step in found:
        assert sum(step.seconds.values()) == pytest.approx(step.step_s, abs=1e-9)
