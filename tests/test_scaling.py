"""The cost model of launch/SCALING.md: its limits, and that the page shows what it says."""

import json
import pathlib

import pytest

from mmgen.benchmark import scaling
from mmgen.benchmark.scaling import MACHINES, PARAMETERS, all_reduce, predict_step
from mmgen.core.reading import LATE
from mmgen.core.resident import LONGEST_CHUNK
from mmgen.report.published import published

PAGE = pathlib.Path(__file__).parents[1] / "launch" / "SCALING.md"
H200 = MACHINES["h200"]


def test_the_page_shows_what_the_command_prints(capsys):
    scaling.main([])
    assert capsys.readouterr().out.strip() in PAGE.read_text()


def test_the_page_says_how_long_a_stop_takes():
    iterations = (LATE + 1) * LONGEST_CHUNK
    h200, v5e = (
        predict_step("lxmert", MACHINES[name]).total * iterations for name in ("h200", "tpu_v5e")
    )
    said = f"{LATE + 1} chunks of {LONGEST_CHUNK} iterations, by the table {h200:.2g} s for LXMERT"
    text = " ".join(PAGE.read_text().split())
    assert f"{said} on an H200 and {v5e:.2g} s on a v5e" in text


def test_parameters_are_the_published_totals():
    assert published("viscoll")["parameters"] == PARAMETERS


def test_a_sum_over_devices_costs_twice_the_bytes_over_the_slowest_link():
    size = 10**12
    assert all_reduce(size, H200, 1) == 0
    within, between = 2 * size / H200.link, 2 * size / H200.group / H200.network
    assert all_reduce(size, H200, 8) == pytest.approx(within * 7 / 8, rel=1e-3)
    everywhere = within * 7 / 8 + between * 63 / 64
    assert all_reduce(size, H200, 8 * 64) == pytest.approx(everywhere, rel=1e-3)


def test_parts_of_a_step_follow_the_batch_and_the_devices():
    one = predict_step("vlbert", H200)
    double = predict_step("vlbert", H200, batch=64)
    assert double.compute == pytest.approx(2 * one.compute)
    assert double.launches == one.launches and one.memory < double.memory < 2 * one.memory
    eight = predict_step("vlbert", H200, devices=8)
    assert eight.compute == pytest.approx(one.compute / 8) and eight.collectives > 0
    # 32 examples cannot be shared by 256 devices.
    assert predict_step("vlbert", H200, devices=256) == one
    three = predict_step("vlbert", H200, seeds=3)
    assert three.compute == pytest.approx(3 * one.compute) and three.launches == one.launches
    assert predict_step("lxmert", H200).total > one.total


def test_the_model_beside_a_bench(tmp_path, capsys):
    bench = {
        "size": "paper",
        "dtype": "float32",
        "peak": 2e11,
        "bucket": [27, 40],
        "cases": [
            {"algorithm": "er", "model": "vlbert", "batch_size": 32, "name": "er vlbert x32"},
            {"algorithm": "mir", "model": "vlbert", "batch_size": 32, "name": "mir vlbert x32"},
        ],
    }
    for case in bench["cases"]:
        case["host_ms"] = 4000.0
    file = tmp_path / "bench.json"
    file.write_text(json.dumps(bench))
    scaling.main(["--machines=h200", f"--against={file}"])
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "x32" in line)
    *_, predicted, measured, ratio = (float(cell.replace(",", "")) for cell in line.split()[3:])
    assert measured == 4000 and ratio == pytest.approx(measured / predicted, rel=0.01)
    assert predicted > 1000
