import pickle

from syncwall.problems import InputError, Problem, did_you_mean


def test_problems_are_listed_in_the_order_of_the_text_and_counted():
    error = InputError([Problem("run.yaml", 7, 12, "second"), Problem("run.yaml", 3, 1, "first")])
    assert str(error) == ("run.yaml:3:1  first\nrun.yaml:7:12  second\n2 problems, nothing was computed")


def test_a_problem_without_a_place_has_no_line():
    assert str(InputError.of('unknown device "x"')) == 'unknown device "x"'
    assert str(InputError.of("is empty", file="a.yaml")) == "a.yaml: is empty"


def test_errors_survive_a_process_pool():
    error = InputError([Problem("a", 1, 2, "b")])
    assert pickle.loads(pickle.dumps(error)).problems == error.problems


def test_swapped_letters_win_over_other_near_words():
    assert did_you_mean("nodse", ["node", "nodes"]) == '; did you mean "nodes"?'


def test_nothing_is_suggested_for_a_strange_word():
    assert did_you_mean("zzzz", ["nodes", "layout"]) == ""


def test_the_nearest_name_is_found_whatever_its_case():
    assert did_you_mean("h100-sxmm", ["H100-SXM"]) == '; did you mean "H100-SXM"?'


def test_a_message_that_quotes_a_word_without_an_end_is_shortened():
    said = str(InputError.of(f'"{"a" * 1_000_000}" is not a whole number', file="x", line=1))
    assert len(said) < 5000
    assert said.startswith('x:1:0  "aaa')
    assert said.endswith('aaa" is not a whole number')
