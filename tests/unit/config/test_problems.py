from gateway.config.problems import ConfigErrors, Problem, did_you_mean, render


def test_a_path_reads_as_people_write_it() -> None:
    assert render(("models", "llama-3.3-70b", "deployments", 0, "provider")) == "models.llama-3.3-70b.deployments[0].provider"
    assert render(()) == ""


def test_the_nearest_word_is_offered_only_when_it_is_near() -> None:
    assert did_you_mean("deepinfar", ["nebius", "deepinfra"]) == " (did you mean 'deepinfra'?)"
    assert did_you_mean("x", ["nebius", "deepinfra"]) == ""


def test_errors_are_in_the_order_of_the_file_each_once() -> None:
    later, first = Problem(9, "b", "is wrong"), Problem(2, "a", "is missing")
    assert ConfigErrors("f.yaml", [later, first, later]).lines == ("f.yaml:2: a: is missing", "f.yaml:9: b: is wrong")


def test_a_problem_of_the_whole_file_has_no_line() -> None:
    assert str(ConfigErrors("f.yaml", [Problem(0, "", "cannot be read")])) == "f.yaml: cannot be read"
