"""The text of schedules, random ones, and shrinking."""

from __future__ import annotations

import pytest

from kubedra.exploration.schedule import (
    ACTIONS,
    Deviation,
    FixedSchedule,
    RandomSchedule,
    Schedule,
    ScheduleError,
    parse,
    pick,
    render,
    shrink,
)

CONFLICT = Deviation("a:update:configmaps/x#2", "conflict")
DELAY = Deviation("b:event:pods#1", "delay", 2.0)


def pass_points(schedule: Schedule, count: int = 200) -> list[Deviation]:
    """Pass choice points of two names, and return the deviations."""
    schedule.begin()
    for number in range(count):
        schedule.choose("a:update:configmaps/x" if number % 2 else "b:event:pods", tuple(ACTIONS))
    return schedule.taken


def test_the_text_of_a_schedule_says_all_of_it() -> None:
    text = render([CONFLICT, DELAY])
    assert text == "a:update:configmaps/x#2=conflict b:event:pods#1=delay@2"
    assert parse(text) == [CONFLICT, DELAY]
    assert parse(render([])) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a:update", '"a:update" is not a deviation: write COMPONENT:VERB:OBJECT#NUMBER=ACTION, or none'),
        ("a#0=lost", '"a#0=lost" is not a deviation'),
        ("a#1=explode", '"a#1=explode": unknown action "explode"; use one of: delay, late'),
        ("a#1=delay", '"a#1=delay": delay takes @SECONDS'),
        ("a#1=lost@2", '"a#1=lost@2": lost takes no seconds'),
    ],
)
def test_a_wrong_text_is_one_line(text: str, message: str) -> None:
    with pytest.raises(ScheduleError) as error:
        parse(text)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_a_fixed_schedule_deviates_only_at_its_points() -> None:
    assert pass_points(FixedSchedule([CONFLICT, DELAY])) == [DELAY, CONFLICT]


def test_an_action_that_a_point_does_not_offer_is_left_out() -> None:
    schedule = FixedSchedule([CONFLICT._replace(point="a:update:configmaps/x#1")])
    schedule.begin()
    assert schedule.choose("a:update:configmaps/x", ("delay",)) is None


def test_the_start_of_a_control_plane_belongs_to_no_schedule() -> None:
    schedule = FixedSchedule([DELAY])
    assert schedule.choose("b:event:pods", ("delay",)) is None
    schedule.begin()
    assert schedule.choose("b:event:pods", ("delay",)) == DELAY


def test_the_same_number_gives_the_same_schedule() -> None:
    found = [pass_points(RandomSchedule(number)) for number in range(50)]
    assert found == [pass_points(RandomSchedule(number)) for number in range(50)]
    assert len({render(each) for each in found}) > 40


def test_random_schedules_reach_every_action() -> None:
    taken = {each.action for number in range(200) for each in pass_points(RandomSchedule(number))}
    assert taken == set(ACTIONS)


def test_the_faults_of_a_random_schedule_come_to_an_end() -> None:
    assert max(len([d for d in pass_points(RandomSchedule(n), 5000) if d.is_fault]) for n in range(50)) <= 6


def test_every_second_schedule_has_few_deviations_of_the_plain_run() -> None:
    plain = FixedSchedule()
    pass_points(plain)
    assert all(len(pass_points(pick(number, plain.visited))) <= 3 for number in range(1, 100, 2))
    assert isinstance(pick(2, plain.visited), RandomSchedule)


def test_shrinking_leaves_out_what_a_failure_does_not_need() -> None:
    noise = [Deviation(f"c:get:pods#{number}", "late", 15.0) for number in range(1, 20)]
    both = [noise[0], CONFLICT, *noise[1:], DELAY._replace(seconds=15.0)]

    def fails(deviations: list[Deviation]) -> bool:
        long = any(each.point == DELAY.point and each.seconds >= 2 for each in deviations)
        return CONFLICT in deviations and long

    assert shrink(both, fails) == [CONFLICT, DELAY]


def test_shrinking_asks_few_times() -> None:
    asked = 0

    def fails(deviations: list[Deviation]) -> bool:
        nonlocal asked
        asked += 1
        return CONFLICT in deviations

    many = [Deviation(f"c:get:pods#{number}", "error") for number in range(1, 31)]
    assert shrink([*many, CONFLICT], fails) == [CONFLICT]
    assert asked <= 40
