"""Laws of the judge: what is there is found, and noise alone is silent."""

from datetime import UTC, datetime, timedelta

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import syncwall as sw
from syncwall.explain.series import drift_of, level_shifts, outliers_of, period_of
from syncwall.explain.training_log import log_findings, pace_of
from syncwall.explain.verdict import VerdictState
from syncwall.read.training_log import read_training_log

SEEDS = st.integers(0, 2**32 - 1)
NOISE = {
    "normal": lambda rng, n: rng.normal(size=n),
    "heavy tails": lambda rng, n: rng.standard_t(3, n),
    "one-sided": lambda rng, n: rng.exponential(size=n),
    "two kinds in turn": lambda rng, n: np.arange(n) % 2,
    "with a memory": lambda rng, n: np.convolve(rng.normal(size=n + 3), [0.5, 0.3, 0.2, 0.1], "valid"),
}


def series(seed, kind, count, spread, step_s=1.5):
    return step_s * np.exp(spread * NOISE[kind](np.random.default_rng(seed), count))


@given(SEEDS, st.sampled_from(sorted(NOISE)), st.integers(10, 300), st.floats(0.001, 0.2))
def test_noise_has_no_shift_and_no_drift(seed, kind, count, spread):
    values = series(seed, kind, count, spread)
    assert level_shifts(values) == []
    assert drift_of(np.arange(count), values) is None


@given(SEEDS, st.integers(60, 400), st.floats(0.2, 0.8), st.floats(0.002, 0.03), st.booleans())
def test_a_shift_of_a_fifth_is_found_where_it_is(seed, count, where, spread, spiky):
    at, values = int(where * count), series(seed, "normal", count, spread)
    values[at:] *= 1.2
    if spiky:
        values[:: count // 7] *= 5.0
    assert any(abs(one.at - at) <= 5 and 1.1 < one.ratio < 1.3 for one in level_shifts(values))
    assert drift_of(np.arange(count), values) is None


@given(SEEDS, st.integers(100, 400), st.floats(1.3, 3.0), st.floats(0.002, 0.02))
def test_a_drift_is_found_and_is_no_shift(seed, count, ratio, spread):
    values = series(seed, "normal", count, spread) * ratio ** (np.arange(count) / (count - 1))
    found = drift_of(np.arange(count), values)
    assert found is not None
    assert abs(np.log(found / ratio)) < 0.1


@given(SEEDS, st.integers(5, 60), st.integers(4, 20), st.floats(2.0, 20.0), st.floats(0.002, 0.03))
def test_what_comes_every_so_many_steps_is_found(seed, period, times, height, spread):
    count = period * times + period // 2
    values, steps = series(seed, "normal", count, spread), np.arange(1, count + 1)
    values[steps % period == 0] *= height
    at, _ = outliers_of(values)
    assert period_of(steps[at], steps) == (period, 0)


def written(tmp_path, seconds, loss=None, name="train.log", memory=None):
    """A log of torchtitan with these times."""
    begin, lines = datetime(2026, 3, 1, tzinfo=UTC), []
    rng = np.random.default_rng(1)
    loss = (
        2.0 + np.exp(-np.arange(len(seconds)) / 50) + 0.01 * rng.normal(size=len(seconds))
        if loss is None
        else loss
    )
    memory = np.full(len(seconds), 40.0) if memory is None else memory
    for step, (end, one, value, gib) in enumerate(
        zip(np.cumsum(seconds), seconds, loss, memory, strict=True), 1
    ):
        when = f"{begin + timedelta(seconds=float(end)):%Y-%m-%d %H:%M:%S,%f}"[:-3]
        lines.append(
            f"[rank0]:[titan] {when} - root - INFO - step: {step:2}  loss: {value:8.4f}  memory: "
            f"{gib:.2f}GiB({gib / 0.8:.2f}%)  tps: {8192 / one:,.0f}  tflops: {500 / one:.2f}  mfu: 40.00%"
        )
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n")
    return path


def findings(path):
    return {one.what: one.severity for one in log_findings(read_training_log(path))}


def test_a_steady_log_has_no_finding_and_its_level_is_not_judged(tmp_path):
    path = written(tmp_path, series(3, "normal", 300, 0.02))
    found = sw.explain(path)
    assert found.findings == ()
    assert found.state is VerdictState.NOT_JUDGED
    assert [one.against for one in found.judged] == ["their own median"]
    assert found.not_judged[0].what.startswith("the level of 5,4")


def test_a_shift_a_stall_and_a_period_are_told_with_their_step(tmp_path):
    values = series(4, "normal", 400, 0.01)
    values[250:] *= 1.2
    values[49::50] *= 3.0
    values[123] *= 40.0
    found = findings(written(tmp_path, values))
    assert any("20% slower from step 25" in one and said == "wrong" for one, said in found.items())
    assert any(one.startswith("every 50 steps") for one in found)
    assert any(one.startswith("stalls at step 124") for one in found)


def test_a_loss_that_jumps_breaks_or_stays_zero_is_told(tmp_path):
    values = series(5, "normal", 200, 0.01)
    loss = 2.0 + np.exp(-np.arange(200) / 50) + 0.01 * np.random.default_rng(2).normal(size=200)
    jump, broken, zero = loss.copy(), loss.copy(), loss.copy()
    jump[150:154] = 6.0
    broken[150:] = np.nan
    zero[150:] = 0.0
    assert any("loss jumps to 6 at step 15" in one for one in findings(written(tmp_path, values, jump)))
    assert "loss is not a number from step 151 to the end" in findings(written(tmp_path, values, broken))
    assert "loss is 0 from step 151 to the end" in findings(written(tmp_path, values, zero))


def test_memory_that_grows_all_the_time_is_told_and_that_which_settles_is_not(tmp_path):
    values, steps = series(6, "normal", 300, 0.01), np.arange(300)
    grows = findings(written(tmp_path, values, memory=40.0 + 0.02 * steps))
    settles = findings(written(tmp_path, values, memory=40.0 + 6.0 * (1 - np.exp(-steps / 20))))
    assert any(one.startswith("memory grows all the time") for one in grows)
    assert settles == {}


def test_a_slow_start_is_warm_up(tmp_path):
    values = series(7, "normal", 100, 0.01)
    values[:2] *= 30.0
    log = read_training_log(written(tmp_path, values))
    assert pace_of(log).warm_up == 2
    assert list(log_findings(log)) == []


def test_a_log_beside_a_good_one_is_slower_the_same_or_faster(tmp_path):
    good = written(tmp_path, series(8, "normal", 100, 0.02), name="good.log")
    same = written(tmp_path, series(9, "normal", 100, 0.02), name="same.log")
    slow = written(tmp_path, series(9, "normal", 100, 0.02, 1.8), name="slow.log")
    assert sw.explain(same, against=good).state is VerdictState.HEALTHY
    assert "1.20 times slower" in str(sw.explain(slow, against=good).verdict)
    assert "1.20 times faster" in str(sw.explain(good, against=slow).verdict)


MEGATRON = {
    "world_size": 64,
    "num_layers": 32,
    "hidden_size": 4096,
    "ffn_hidden_size": 14336,
    "num_attention_heads": 32,
    "group_query_attention": True,
    "num_query_groups": 8,
    "micro_batch_size": 1,
    "global_batch_size": 256,
    "seq_length": 4096,
    "tensor_model_parallel_size": 2,
    "bf16": True,
    "use_distributed_optimizer": True,
    "swiglu": True,
    "add_bias_linear": False,
    "untie_embeddings_and_output_weights": True,
    "position_embedding_type": "rope",
    "padded_vocab_size": 32000,
    "fp16": False,
    "num_experts": None,
}


def megatron(tmp_path, step_s):
    arguments = [f"  {name} {'.' * (48 - len(name))} {value}" for name, value in MEGATRON.items()]
    steps = [
        f" iteration {step:8}/     500 | consumed samples: {256 * step:12} | elapsed time per iteration "
        f"(ms): {1e3 * step_s * (1 + 0.001 * (step % 3)):.1f} | global batch size:   256 | lm loss: "
        f"{10 / step:.6E} | number of skipped iterations:   0 | number of nan iterations:   0 |"
        for step in range(1, 40)
    ]
    path = tmp_path / "megatron.log"
    path.write_text("\n".join(["---- arguments ----", *arguments, "---- end of arguments ----", *steps]))
    return path


def test_the_settings_in_a_log_are_predicted_on_the_machine_that_is_named(tmp_path):
    path = megatron(tmp_path, 1.8)
    (level,) = sw.explain(path, cluster="dgx-h100").levels
    assert level.predicted is not None
    run = level.predicted.run
    assert (run.gpus, run.layout.tp, run.layout.dp, run.layout.global_batch, run.seq) == (
        64,
        2,
        32,
        256,
        4096,
    )
    step_s = level.predicted.step_s
    assert sw.explain(megatron(tmp_path, step_s), cluster="dgx-h100").state is VerdictState.HEALTHY
    slow = sw.explain(megatron(tmp_path, 3 * step_s), cluster="dgx-h100")
    assert slow.state is VerdictState.WRONG
    assert slow.suspects
    fast = sw.explain(megatron(tmp_path, step_s / 3), cluster="dgx-h100")
    assert fast.state is VerdictState.SUSPECT
    assert "but not the machine" in sw.explain(path).not_judged[0].why


def test_the_configuration_that_torchtitan_prints_is_predicted(tmp_path):
    path = written(tmp_path, series(3, "normal", 60, 0.01))
    config = (
        "[rank0]:2026-03-01 00:00:00,000 - root - INFO - Running with args: {'model': {'name': 'llama3', "
        "'flavor': '8B'}, 'training': {'local_batch_size': 1, 'seq_len': 8192, 'global_batch_size': -1}, "
        "'parallelism': {'data_parallel_shard_degree': -1, 'tensor_parallel_degree': 1}}\n"
        "[rank0]:2026-03-01 00:00:00,000 - root - INFO - Building 1-D device mesh with ['dp_shard'], [8]\n"
    )
    path.write_text(config + path.read_text())
    (level,) = sw.explain(path, cluster="dgx-h100").levels
    assert level.predicted is not None, level.why
    assert (level.predicted.run.gpus, level.predicted.run.seq) == (8, 8192)


def test_a_run_that_is_started_again_and_lines_of_several_ranks_are_one_series(tmp_path):
    lines = written(tmp_path, series(2, "normal", 60, 0.01)).read_text().splitlines()
    path = tmp_path / "again.log"
    both = [line for one in lines for line in (one, one.replace("rank0", "rank1"))]
    path.write_text("\n".join([*both[:80], *both[40:]]))
    log = read_training_log(path)
    assert log.steps.tolist() == list(range(1, 61))
    assert log.restarts == 1


def test_maxtext_lines_are_read(tmp_path):
    path = tmp_path / "maxtext.log"
    path.write_text(
        "\n".join(
            f"completed step: {step}, seconds: {2.5 + 0.01 * (step % 2):.3f}, TFLOP/s/device: 201.000, "
            f"Tokens/s/device: 3276.800, total_weights: 65536, loss: {9 - 0.1 * step:.3f}"
            for step in range(12)
        )
    )
    (figures,) = sw.explain(path).logs
    assert (figures.framework, figures.lines, figures.tokens_per_s_per_gpu) == ("MaxText", 12, 3276.8)
    assert figures.step_s == 2.505
