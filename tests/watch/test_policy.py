"""What is decided about spikes."""

from syncwall.explain.loss_spikes import Spike
from syncwall.watch.spikes import PRESETS, Action, Decision, Policy, decide

SPIKE = Spike(step=1002, since_step=1000, value=9.0, usual=3.0, spreads=30.0)


def test_by_default_somebody_is_told_and_nothing_is_done():
    found = decide(Policy(), SPIKE, 1003)
    assert (found.action, found.skip_batches, found.checkpoint_step) == (Action.ALERT, 0, None)


def test_palm_goes_back_a_hundred_steps_and_skips_at_least_two_hundred_batches():
    found = decide(PRESETS["palm"], SPIKE, 1003, checkpoints=(500, 850, 950))
    assert found.action is Action.ROLL_BACK
    assert (found.checkpoint_step, found.skip_batches) == (850, 200)
    assert found.at_step == 1004


def test_palm_skips_no_more_than_five_hundred_batches():
    found = decide(PRESETS["palm"], SPIKE, 1003, checkpoints=(0,))
    assert (found.checkpoint_step, found.skip_batches) == (0, 500)


def test_without_an_early_checkpoint_nothing_is_thrown_away():
    found = decide(PRESETS["palm"], SPIKE, 1003, checkpoints=(950,))
    assert found.action is Action.ALERT
    assert "no checkpoint at or before step 900" in found.reason


def test_a_loop_that_tells_no_checkpoints_chooses_one_itself():
    assert decide(PRESETS["palm"], SPIKE, 1003).checkpoint_step == 900


def test_after_three_actions_in_short_time_spikes_are_only_told():
    policy = PRESETS["skip"]
    before: list[Decision] = []
    for step in (1000, 1500, 2000, 2500):
        before.append(decide(policy, SPIKE, step, before=before))
    assert [one.action for one in before] == [Action.SKIP] * 3 + [Action.ALERT]
    assert decide(policy, SPIKE, 9000, before=before).action is Action.SKIP
    assert [one.number for one in before] == [1, 2, 3, 4]
