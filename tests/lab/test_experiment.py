from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncwall.describe.reading import validated
from syncwall.documents import parse_document
from syncwall.lab.experiment import Experiment, read_experiment
from syncwall.lab.virtual_hosts import slow_loaders
from syncwall.problems import InputError

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "lab").glob("*.yaml"))
WORDS = st.sampled_from(
    [
        "places",
        "rates",
        "nics",
        "serves",
        "rails",
        "leaves",
        "oversubscription",
        "threads",
        "jobs",
        "measure",
        "with",
        "run",
        "faults",
        "kill",
        "cut_link",
        "slow_link",
        "slow_worker",
        "slow_loader",
        "rank",
        "host",
        "after",
        "rate",
        "share",
        "delay",
        "name",
        "time_limit",
        "environment",
        "repeats",
    ]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["2x2", "1x4", "0x1", "100Mb/s", "5 s", "collectives", "links", "9999x9999"])
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4)
)


def read(text: str) -> Experiment:
    return validated(parse_document(text, "x.yaml"), Experiment, name="x")


def test_places_times_rates_but_one_host_once():
    text = "places: [1x4, 2x2, 4x1]\nrates: [100Mb/s, 1Gb/s]\njobs: [{measure: links}]"
    labels = [topology.label for topology in read(text).topologies()]
    assert labels == ["1x4", "2x2 at 100 Mb/s", "2x2 at 1 Gb/s", "4x1 at 100 Mb/s", "4x1 at 1 Gb/s"]


def test_flags_become_words():
    text = (
        "places: [2x1]\njobs:\n"
        "  - {measure: collectives, with: {min_size: 1MB, trials: 3, x: [a, b], y: true, z: false}}"
    )
    words = read(text).jobs[0].words(Path("o.json"))
    assert words == [
        "-m",
        "syncwall",
        "measure",
        "collectives",
        "--min-size",
        "1MB",
        "--trials",
        "3",
        "--x",
        "a",
        "b",
        "--y",
        "--json",
        "o.json",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("places: [2by2]\njobs: [{measure: links}]", 'x.yaml:1:10  "2by2" is not a place'),
        ("places: [2x2]\njobs: []", "x.yaml:2:1  `jobs` is empty"),
        (
            "places: [2x2]\nrate: 1Gb/s\njobs: [{measure: links}]",
            'unknown key "rate"; did you mean',
        ),
        ("places: [2x2]\nrates: [1Gbps]\njobs: [{measure: links}]", "bits or bytes"),
        ("places: [2x2]\njobs: [{}]", "a job has either `measure` or `run`"),
        ("places: [2x2]\nserves: [[0]]\njobs: [{measure: links}]", "x.yaml:1:1  2x2: `serves`"),
        (
            "places: [2x2]\njobs: [{measure: links}]\nfaults: [{kill: {rank: 4, after: 1 s}}]",
            "x.yaml:3:1  rank 4 killed after 1 s: 2x2 has no rank 4",
        ),
        (
            "places: [1x2]\njobs: [{measure: links}]\nfaults: [{cut_link: {host: 0, after: 1 s}}]",
            "1x2 has no links",
        ),
        ("places: [2x2]\njobs: [{measure: links}]\nfaults: [{}]", "a fault is one of slow_link"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text, problem):
    with pytest.raises(InputError) as error:
        read(text)
    assert problem in str(error.value)


@given(st.dictionaries(WORDS, VALUES, max_size=8), st.booleans())
def test_any_mapping_is_an_experiment_or_an_input_error(fields, complete):
    from syncwall.documents import Document

    if complete:
        fields = {"places": ["2x2"], "jobs": [{"measure": "links"}]} | fields
    try:
        experiment = validated(Document("x.yaml", fields, {}), Experiment)
    except InputError:
        return
    assert experiment.topologies()


@given(st.text())
def test_any_text_is_an_experiment_or_an_input_error(text):
    try:
        read(text)
    except InputError:
        return


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_can_be_read(path):
    assert read_experiment(path).name == path.stem


def test_a_slow_loader_is_of_one_rank_or_of_all():
    text = "places: [2x1]\njobs: [{measure: step}]\nfaults:\n  - slow_loader: {delay: 80 ms}\n"
    everybody = read(text)
    one = read(text + "  - slow_loader: {rank: 1, delay: 200 ms}\n")
    topology = one.topologies()[0]
    late = {"SYNCWALL_LOADER_DELAY_S": "0.08"}
    assert slow_loaders(everybody.faults, topology) == {0: late, 1: late}
    assert slow_loaders(one.faults, topology)[1] == {"SYNCWALL_LOADER_DELAY_S": "0.2"}
    assert one.faults[1].label == "data loader of rank 1 0.2 s later"
    with pytest.raises(InputError, match="no rank 2"):
        read(text + "  - slow_loader: {rank: 2, delay: 80 ms}\n")


@pytest.mark.parametrize("name", ["A=B", "", "A\\0"])
def test_names_that_no_variable_can_have_are_refused(name):
    text = f'places: [2x1]\nrates: [1Gb/s]\njobs: [{{measure: links, environment: {{"{name}": x}}}}]\n'
    with pytest.raises(InputError, match="environment"):
        validated(parse_document(text, "e.yaml"), Experiment, name="e")
