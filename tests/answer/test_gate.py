"""Two recordings before and after a change: what is above a limit, why, and what cannot be judged."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

import syncwall as sw
from syncwall.answer.gate import Gate, Outcome, gate, limits_of
from syncwall.cli import main
from syncwall.describe.choice import Dtype
from syncwall.problems import InputError
from syncwall.pytest import assert_step
from syncwall.read.recorded_program import read_program
from syncwall.show.schema import schema
from syncwall.work.operations import Collective, Elementwise, Gemm
from syncwall.work.program import Call, Held, HeldKind, Note, NoteKind, Program, SourceLocation
from tests.answer.test_program import program

LIMITS = limits_of("step 2%, memory 1%, exposed 5%")
HYBRID = "examples/capture/hybrid.work.json.gz"


def judged(before: Program, after: Program) -> Gate:
    return gate(*(sw.predict(one, cluster="dgx-h100") for one in (before, after)), limits=LIMITS)


def changed(change: Callable[[Call], Call], one: Program | None = None) -> Program:
    one = one or program()
    return replace(
        one, ranks=tuple(replace(r, calls=tuple(change(call) for call in r.calls)) for r in one.ranks)
    )


def moved(call: Call) -> Call:
    """Everything from line 20 on stands seven lines further down."""
    file, _, line = call.place.source.rpartition(":")
    down = f"{file}:{int(line) + 7}" if file and int(line) > 20 else call.place.source
    return replace(call, place=replace(call.place, source=down))


def noted(one: Program, flops: float) -> Program:
    return replace(one, notes=(Note(NoteKind.PLACEHOLDER, "nonzero", flops=flops),))


def test_equal_programs_are_within_every_limit_wherever_their_lines_are():
    found = judged(program(), changed(moved))
    assert (found.outcome, found.exit_code, found.calls, found.memory) == (Outcome.WITHIN, 0, [], [])
    assert {one.share for one in found.growths} == {0.0}


def test_programs_are_also_priced_on_8_and_1024_gpus():
    hybrid = read_program(HYBRID)
    found = judged(hybrid, hybrid)
    assert [one.gpus for one in found.growths[::3]] == [8, 256, 1024]
    steps = [one.before for one in found.growths[::3]]
    assert steps[1] == sw.predict(hybrid, cluster="dgx-h100").step_s
    assert steps == sorted(steps)


def test_an_added_wait_of_the_host_is_found_at_its_line():
    calls = list(changed(moved).ranks[0].calls)
    waits = [
        Call("item", None, after=(len(calls) - 1,), host_waits=True, place=SourceLocation("", "train.py:44"))
        for _ in range(40)
    ]
    rank = replace(program().ranks[0], calls=(*calls, *waits, calls[1]))
    found = judged(program(), replace(program(), ranks=(rank,))).calls
    kinds = {one.kind: (one.source, one.calls) for one in found}
    assert kinds == {"host waits": ("train.py:44", 40), "kernels": ("train.py:10", 1)}


def test_a_slip_of_precision_is_named_with_module_and_line():
    def slipped(call: Call) -> Call:
        if isinstance(call.what, Gemm) and call.place.module == "layers.2.mlp":
            call = replace(call, what=replace(call.what, dtype=Dtype.FP32))
        return moved(call)

    found = judged(program(), changed(slipped))
    assert (found.outcome, found.exit_code) == (Outcome.ABOVE, 1)
    first = found.calls[0]
    assert (first.kind, first.module, first.source, first.what) == (
        "precision",
        "layers.*.mlp",
        "train.py:10",
        "fp32 instead of bf16",
    )
    assert first.seconds > 0


def test_a_dropped_compiler_explains_all_of_its_seconds():
    found = judged(replace(program(), compiled=True), program())
    (only,) = found.calls
    assert only.kind == "torch.compile"
    assert only.seconds == pytest.approx(found.after.step_s - found.before.step_s)


def test_larger_collectives_are_communication_and_gone_kernels_have_their_old_line():
    def larger(call: Call) -> Call:
        what = call.what
        return (
            replace(call, what=replace(what, bytes=2 * what.bytes)) if isinstance(what, Collective) else call
        )

    assert judged(program(), changed(larger)).calls[0].kind == "communication"

    def smaller(call: Call) -> Call:
        is_one = call.name == "aten.mul"
        return replace(call, name="aten.add", what=Elementwise(1e8)) if is_one else call

    found = judged(program(), changed(smaller))
    assert found.outcome is Outcome.WITHIN
    assert found.calls[0].what == "+4 aten.add, −4 aten.mul"
    assert found.calls[0].seconds < 0


def test_more_memory_is_named_by_its_purpose():
    rank = program().ranks[0]
    held = (*rank.held, Held(HeldKind.GRADIENTS, "layers.3", 2e9))
    found = judged(program(), replace(program(), ranks=(replace(rank, held=held),)))
    assert [one.quantity for one in found.of(Outcome.ABOVE)] == ["memory"]
    assert [(one.kind, one.module, one.bytes) for one in found.memory] == [("gradients", "layers.*", 2e9)]


def test_a_program_that_does_not_fit_any_more_is_above_without_a_limit():
    rank = replace(program().ranks[0], held=(Held(HeldKind.ACTIVATIONS, "", 2e11),))
    pair = [sw.predict(one, cluster="dgx-h100") for one in (program(), replace(program(), ranks=(rank,)))]
    assert gate(*pair, limits={}).exit_code == 1
    assert "does not fit" in gate(*pair, limits={}).reason


def test_twice_the_samples_in_twice_the_time_are_no_loss():
    rank = program().ranks[0]
    twice = replace(rank, calls=(*rank.calls, *rank.calls))
    found = judged(program(), replace(program(), ranks=(twice,), samples=64.0))
    assert found.times == 0.5
    step = found.growths[0]
    assert (step.gpus, step.quantity, step.outcome) == (16, "step", Outcome.WITHIN)


def test_what_is_not_known_is_no_good_news_unless_it_is_alike():
    flops = program().model_flops / 16
    found = judged(program(), noted(program(), 0.1 * flops))
    assert (found.outcome, found.exit_code) == (Outcome.NOT_JUDGED, 3)
    assert "not all of the step is known" in found.reason
    alike = noted(program(), 0.1 * flops)
    assert judged(alike, alike).outcome is Outcome.WITHIN


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (program(world_size=32), "recorded for 16 and 32 ranks"),
        (replace(program(), samples=0.0), "how many samples"),
    ],
)
def test_programs_that_cannot_be_compared_are_not_judged(after, said):
    found = judged(program(), after)
    assert (found.exit_code, found.growths) == (3, ())
    assert said in found.reason


def test_sizes_that_cannot_be_priced_say_why():
    alone = replace(program(world_size=1), ranks=(replace(program().ranks[0], alike=1),))
    found = judged(alone, alone)
    assert {one.gpus for one in found.growths} == {1}
    assert all("it has one rank" in one for one in found.not_priced)


@pytest.mark.parametrize("text", ["step", "speed 2%", "step 2", "step -2%", "", "step 2%;memory 1%"])
def test_limits_are_a_quantity_and_a_share(text):
    with pytest.raises(InputError, match="no limits"):
        limits_of(text)


def test_the_command_line_gives_the_same_digits_twice(tmp_path: Path, capsys):
    asked = ["compare", HYBRID, HYBRID, "--cluster", "dgx-h100", "--fail-above", "step 0%, exposed 0%"]
    texts = []
    for name in ("one", "two"):
        page = tmp_path / f"{name}.md"
        assert main([*asked, "--json", "--markdown", str(page)]) == 0
        texts.append((capsys.readouterr().out, page.read_text()))
    assert texts[0] == texts[1]
    data = json.loads(texts[0][0])
    jsonschema.validate(data, schema("compare gate"))
    assert (data["verb"], data["outcome"]) == ("compare gate", "within")


@pytest.mark.parametrize(
    "words",
    [
        [HYBRID, HYBRID, "--against", "cluster=dgx-a100"],
        [HYBRID],
        [HYBRID, HYBRID, "--best-layout"],
    ],
)
def test_limits_are_for_two_recordings(words, capsys):
    assert main(["compare", *words, "--cluster", "dgx-h100", "--fail-above", "step 2%"]) == 2
    assert "two" in capsys.readouterr().err


def test_assert_step_shows_the_largest_lines_of_the_ledger():
    found = assert_step(program(), cluster="dgx-h100", at_most="10s", memory="70GiB")
    assert assert_step(HYBRID, cluster="dgx-h100").program.world_size == 256
    with pytest.raises(AssertionError) as caught:
        assert_step(program(), cluster="dgx-h100", at_most=found.step_s / 2, memory="1GB")
    lines = str(caught.value).splitlines()
    assert lines[0] == "train.py on 16 × dgx-h100:"
    assert "(+100.0%)" in lines[1]
    largest = sorted(found.ledger, key=lambda cause: -found.ledger[cause])[:3]
    assert [line.split("  ")[1].strip() for line in lines[2:5]] == largest
    assert lines[5].startswith("needed are 11.3 GB of 1.0 GB")


def test_assert_step_does_not_pass_what_it_does_not_know():
    known = sw.predict(program(), cluster="dgx-h100").step_s
    one = noted(program(), 0.2 * program().model_flops / 16)
    with pytest.raises(AssertionError, match="of the work is not known"):
        assert_step(one, cluster="dgx-h100", at_most=1.02 * known)
