"""A run folder belongs to one process at a time, and to none after that process."""

import subprocess
import sys

import pytest
from interruptions import resume, run

from agents.core.lock import LOCK, RunLock

HOLDS = (
    "import sys, time\n"
    "from pathlib import Path\n"
    "from agents.core.lock import RunLock\n"
    "with RunLock(Path(sys.argv[1])):\n"
    "    print('held', flush=True)\n"
    "    time.sleep(60)\n"
)


@pytest.fixture
def holder(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_folder_in_use_is_refused_with_who_uses_it(holder, tmp_path, capsys):
    with pytest.raises(ValueError, match=f"in use by process {holder.pid} on "), RunLock(tmp_path):
        pass
    with pytest.raises(SystemExit) as ended:
        run("rloo", tmp_path, iterations=1)
    assert ended.value.code == 2
    assert f"{tmp_path} is in use by process {holder.pid}" in capsys.readouterr().err
    assert not (tmp_path / "config.yaml").exists()


def test_a_killed_process_leaves_no_lock_in_the_way(holder, tmp_path):
    holder.kill()
    holder.wait()
    assert (tmp_path / LOCK).exists(), "what it left"
    with RunLock(tmp_path):
        pass
    assert not (tmp_path / LOCK).exists()


def test_a_live_run_is_not_resumed_by_another(tmp_path, capsys):
    """Not even its newer checkpoints are renamed."""
    folder = tmp_path / "run"
    assert run("rloo", folder, iterations=2) == 0
    (folder / "summary.json").unlink()
    names = sorted(path.name for path in (folder / "checkpoints").iterdir())
    with RunLock(folder), pytest.raises(SystemExit):
        resume("rloo", folder / "checkpoints" / "step-1")
    assert "is in use by process" in capsys.readouterr().err
    assert sorted(path.name for path in (folder / "checkpoints").iterdir()) == names


def test_an_owner_that_cannot_be_read_is_another_process(holder, tmp_path):
    (tmp_path / ".owner.json").write_text("[1")
    with pytest.raises(ValueError, match="in use by another process"), RunLock(tmp_path):
        pass
