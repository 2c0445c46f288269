# SPDX-License-Identifier: Apache-2.0
"""Several workers of which one dies or hangs: each run succeeds with correct results.

``make test-distributed`` runs this and writes the result of each kill to ``build/distributed.md``.
"""

from __future__ import annotations

import json
import signal
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from airflow_processes import AirflowProcesses, RunState, wait_for
from cluster import Backends, backends
from cryptography.fernet import Fernet
from local_airflow import signal_all

from airflow_provider_analytics.sandbox.server import SandboxServer

pytestmark = [pytest.mark.system, pytest.mark.kill]

#: Number of chunks and of websites; the smaller ones run all at the same time.
MANY, FEW = (40, 4000), (4, 400)
BUCKET = "analytics"
#: Seconds after which Redis gives a task that no worker has confirmed to another worker.
VISIBILITY_TIMEOUT = 15
SETTINGS = {
    "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor",
    "AIRFLOW__CORE__PARALLELISM": "16",
    "AIRFLOW__CORE__MAX_ACTIVE_TASKS_PER_DAG": "64",
    "AIRFLOW__CELERY__WORKER_PREFETCH_MULTIPLIER": "1",
    "AIRFLOW__CELERY_BROKER_TRANSPORT_OPTIONS__VISIBILITY_TIMEOUT": str(VISIBILITY_TIMEOUT),
    # Dead tasks are found within seconds, not minutes.
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "20",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "3",
    "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "5",
    "AIRFLOW__LOGGING__LOGGING_LEVEL": "DEBUG",
}


@dataclass
class Cluster:
    """A real Airflow with workers, their servers, and the service of the tasks."""

    airflow: AirflowProcesses
    servers: Backends
    sandbox: SandboxServer
    dumps: Path
    #: Rows of the log, as Markdown: the event, and its result.
    log: list[str] = field(default_factory=lambda: ["| What was done | Run | Websites |", "|---|---|---|"])
    started: int = 0

    @property
    def storage(self) -> Any:
        import s3fs

        options = {"endpoint_url": self.servers.s3}
        found = s3fs.S3FileSystem(key="test", secret="test", client_kwargs=options, use_listings_cache=False)
        found.invalidate_cache()
        return found

    def objects(self, folder: str) -> dict[str, bytes]:
        """Return the objects in a folder of the bucket, by path below it."""
        storage = self.storage
        found = storage.find(f"{BUCKET}/{folder}")
        return {path.partition(f"{folder}/")[2]: storage.cat_file(path) for path in found}

    def workers(self, number: int = 2) -> list[str]:
        """Return the names of the running workers; start new ones until there are enough."""
        names = [
            name for name, process in self.airflow.processes.items() if "worker" in name and process.poll() is None
        ]
        new = []
        while len(names) < number:
            self.started += 1
            name = f"worker-{self.started}"
            pid = self.airflow.home / f"{name}.pid"
            arguments = ["--concurrency", "2", "--celery-hostname", name, "--skip-serve-logs", "--pid", str(pid)]
            environment = {"WORKER": name, "AIRFLOW__CORE__HOSTNAME_CALLABLE": "worker_name.worker_name"}
            self.airflow.start(name, "celery", "worker", *arguments, env=environment)
            names.append(name)
            new.append(name)
        for name in new:
            log = self.airflow.home / "processes" / f"{name}.log"
            wait_for(f"{name} to be ready", lambda log=log: b" ready." in log.read_bytes())  # type: ignore[misc]
        return names

    def signal(self, worker: str, number: int) -> int:
        """Send a signal to all processes of a worker; return their number."""
        return len(signal_all(self.airflow.processes[worker].pid, number))

    def kill_all_of(self, worker: str) -> int:
        """Kill all processes of a worker; return their number."""
        killed = self.signal(worker, signal.SIGKILL)
        # One of them might have forked in between.
        wait_for(f"the end of {worker}", lambda: not self.signal(worker, signal.SIGKILL))
        return killed

    def row(self, done: str, run: RunState, began: float, right: str) -> None:
        """Add a row to the log."""
        tries = Counter(task.try_number for task in run.tasks.values())
        numbers = ", ".join(f"{count} at try {number}" for number, count in sorted(tries.items()))
        ended = f"{run.state} in {time.monotonic() - began:.0f} s; tasks: {numbers}"
        self.log.append(f"| {done} | {ended} | {right} |")


@pytest.fixture(scope="module")
def cluster(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    home, dumps = tmp_path_factory.mktemp("airflow"), tmp_path_factory.mktemp("dumps")
    write_dags(checkout, home / "dags")
    for name in ("config", "tmp"):
        (home / name).mkdir()
    (home / "config" / "worker_name.py").write_text(
        "import os\n\ndef worker_name():\n    return os.environ['WORKER']\n"
    )
    with backends() as servers, SandboxServer() as sandbox:
        storage = {"conn_type": "aws", "login": "test", "password": "test", "extra": {"endpoint_url": servers.s3}}
        settings = {
            **SETTINGS,
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": servers.database.replace("postgresql:", "postgresql+psycopg2:"),
            "AIRFLOW__CELERY__BROKER_URL": servers.broker,
            "AIRFLOW__CELERY__RESULT_BACKEND": f"db+{servers.database}",
            "AIRFLOW__CORE__FERNET_KEY": Fernet.generate_key().decode(),
            "AIRFLOW__API_AUTH__JWT_SECRET": uuid.uuid4().hex,
            "AIRFLOW_CONN_AWS_DEFAULT": json.dumps(storage),
            "AWS_DEFAULT_REGION": "us-east-1",
            "ANALYTICS_FOLDER": f"s3://aws_default@{BUCKET}/snapshots",
            "TMPDIR": str(home / "tmp"),  # files of a killed process are removed with the rest
        }
        with AirflowProcesses(home, home / "dags", settings) as airflow:
            found = Cluster(airflow, servers, sandbox, dumps)
            found.storage.mkdir(BUCKET)
            # In the database, encrypted, as the form saves it.
            connection = {"connection_id": "analytics_default", "conn_type": "analytics"}
            airflow.api.add_connection({**connection, "host": sandbox.url, "password": sandbox.api_key})
            found.workers()
            yield found
            servers.dump(dumps)
            assert all(b"analytics_default" in dump.read_bytes() for dump in dumps.glob("*.sql"))
            key = sandbox.api_key.encode()
            kept = [path for folder in (home, dumps) for path in folder.rglob("*") if path.is_file()]
            stored = found.objects("")
            assert not [path for path in kept if key in path.read_bytes()]
            assert not [path for path, content in stored.items() if key in content]
            searched = f"{len(kept):,} files, {len(stored):,} objects, database and queue among them"
            log = checkout / "build" / "distributed.md"
            log.parent.mkdir(exist_ok=True)
            log.write_text(
                "\n".join([*found.log, "", f"Searched for the API key: {searched}: not found.", ""]), "utf-8"
            )


def write_dags(checkout: Path, folder: Path) -> None:
    """Write the samples unchanged, except for schedule, retry delay, number of chunks, and state folder."""
    folder.mkdir()
    for chunks, _ in (MANY, FEW):
        changes = {
            "CHUNKS = 8": f"CHUNKS = {chunks}",
            "state_path=FOLDER": "state_path=\"{{ dag_run.conf['state_path'] }}\"",  # one for each test
            "\nsync_excluded_ips_in_chunks()": f"\nsync_in_{chunks}()",
            "def sync_excluded_ips_in_chunks()": f"def sync_in_{chunks}()",
        }
        text = sample(checkout, "sync_excluded_ips_in_chunks", changes)
        (folder / f"sync_in_{chunks}.py").write_text(text)
    (folder / "nightly_website_snapshot.py").write_text(sample(checkout, "nightly_website_snapshot", {}))


def sample(checkout: Path, name: str, other: Mapping[str, str]) -> str:
    text = (checkout / "dags" / f"{name}.py").read_text("utf-8")
    for old, new in {
        'schedule="@daily"': "schedule=None",
        "duration(minutes=5)": "duration(seconds=1)",
        **other,
    }.items():
        assert old in text
        text = text.replace(old, new)
    return text


class Sync:
    """A run that adds an address to all websites, in chunks that share a list in the bucket."""

    ADDRESS = "10.20.30.40"  # none of the sandbox's own addresses

    def __init__(self, cluster: Cluster, size: tuple[int, int], delay: float = 0) -> None:
        """Trigger it.

        :param size: number of chunks and of websites.
        :param delay: seconds of the service for each update, until its faults are cleared.
        """
        self.cluster, self.api, self.sandbox = cluster, cluster.airflow.api, cluster.sandbox
        self.chunks, websites = size
        self.workers = cluster.workers()
        self.sandbox.reset()
        self.sandbox.seed(websites)
        if delay:
            self.sandbox.fault("update", delay=delay, times=None)
        self.before = self.lists()
        self.dag_id, self.state = f"sync_in_{self.chunks}", f"state-{uuid.uuid4().hex}"
        self.api.set_variable("exclude_ips", self.ADDRESS)
        self.api.unpause(self.dag_id)
        self.began = time.monotonic()
        self.run_id = self.api.trigger(self.dag_id, {"state_path": f"s3://aws_default@{BUCKET}/{self.state}"})

    def lists(self) -> dict[int, list[str]]:
        return {website["id"]: (website["exclude_ips"] or "").splitlines() for website in self.sandbox.websites()}

    def updates(self) -> Counter[int]:
        """Return the number of updates of each website."""
        found = [request.path for request in self.sandbox.requests if request.operation == "update"]
        return Counter(int(path.rpartition("/")[2]) for path in found)

    def of_chunks(self, numbers: Sequence[int]) -> int:
        """Return the number of updates of chunks."""
        return sum(count for website, count in self.updates().items() if website % self.chunks in numbers)

    def in_the_middle(self) -> tuple[str, list[int]]:
        """Wait until a worker is in the middle of chunks; return it and them."""

        def look() -> tuple[str, list[int]] | None:
            begun = Counter(website % self.chunks for website in self.updates().elements())
            found: dict[str, list[int]] = {}
            for number, count in begun.items():
                if 8 < count < 60:
                    host, state = self.api.tries(self.dag_id, self.run_id, f"sync[{number}]")[-1]
                    if state == "running" and host in self.workers:
                        found.setdefault(host, []).append(number)
            return max(found.items(), key=lambda item: len(item[1]), default=None)

        return wait_for("a worker in the middle of its work", look)

    def listed(self) -> list[Any]:
        """Return the rows of the list, by scope."""
        [table] = [content for path, content in self.cluster.objects(self.state).items() if "/lists/" in path]
        rows: list[Any] = json.loads(table)["rows"]["exclude_ips"]
        return [(group["scopes"], list(group["entries"])) for group in rows]

    def is_retried(self, number: int) -> bool:
        """Return whether a later try than the first processes a chunk."""
        tries = self.api.tries(self.dag_id, self.run_id, f"sync[{number}]")
        return len(tries) > 1 and tries[-1][1] == "running"

    def ends_green_and_right(self, done: str, hit: Sequence[int] = (), twice: int = 0) -> None:
        """Wait for the end, check the run, and write the log.

        :param done: the event.
        :param hit: affected chunks.
        :param twice: number of websites that may have been updated twice.
        """
        run = self.api.wait(self.dag_id, self.run_id, patience=600)
        assert run.state == "success", (run, self.said_by_failed())
        assert self.lists() == {website: [*lines, self.ADDRESS] for website, lines in self.before.items()}
        assert all(run.tasks[f"sync[{number}]"].try_number > 1 for number in hit), (hit, run)
        assert self.listed() == [(["*"], [self.ADDRESS])]
        updates = self.updates()
        more = sum(count - 1 for count in updates.values())
        assert more <= twice
        right = f"{len(self.before):,} of {len(self.before):,} right; {updates.total():,} updates, {more} too many"
        self.cluster.row(done, run, self.began, right)

    def said_by_failed(self) -> str:
        """Return the ends of the logs of tries that did not succeed."""
        tasks = [f"sync[{number}]" for number in range(self.chunks)]
        tries = {task: self.api.tries(self.dag_id, self.run_id, task) for task in tasks}
        failed = [task for task in tasks if tries[task][-1][1] != "success"]
        return "\n".join(self.api.log(self.dag_id, self.run_id, task, len(tries[task]))[-5000:] for task in failed)


def test_retry_completes_the_work_of_a_worker_killed_with_all_its_processes(cluster: Cluster) -> None:
    sync = Sync(cluster, MANY, delay=2)
    worker, hit = sync.in_the_middle()
    killed = cluster.kill_all_of(worker)
    cluster.servers.dump(cluster.dumps)  # queued and running requests
    sync.sandbox.clear_faults()
    cluster.workers()
    sync.ends_green_and_right(f"SIGKILL of {worker}, {killed} processes, in the middle of chunks {hit}", hit)


def test_orphans_of_a_killed_worker_do_no_harm(cluster: Cluster) -> None:
    sync = Sync(cluster, FEW, delay=10)
    worker, hit = sync.in_the_middle()
    cluster.airflow.processes[worker].kill()
    cluster.airflow.processes[worker].wait()
    at_the_kill = sync.of_chunks(hit)
    cluster.workers()
    # The service is slow, so the orphans have much to do. No process stops them or reads their logs.
    wait_for("retries", lambda: all(map(sync.is_retried, hit)))
    at_the_end = sync.of_chunks(hit)
    sync.sandbox.clear_faults()
    sync.ends_green_and_right(
        f"SIGKILL of the main process of {worker} in the middle of chunks {hit}, after {at_the_kill} updates: its "
        f"orphans go on, up to {at_the_end} with those of the retries",
        hit,
        twice=sum(website % sync.chunks in hit for website in sync.before),
    )


def test_worker_that_hangs_and_resumes_does_no_harm(cluster: Cluster) -> None:
    sync = Sync(cluster, FEW, delay=4)
    worker, hit = sync.in_the_middle()
    halted, since = cluster.signal(worker, signal.SIGSTOP), time.monotonic()
    try:
        sync.sandbox.clear_faults()
        cluster.workers(3)
        wait_for("retries", lambda: all(map(sync.is_retried, hit)))
        wait_for("the visibility timeout", lambda: time.monotonic() - since > VISIBILITY_TIMEOUT)
    finally:
        cluster.signal(worker, signal.SIGCONT)
    done = (
        f"SIGSTOP of {worker}, {halted} processes, for {time.monotonic() - since:.0f} s in the middle of chunks {hit}"
    )
    # Requests that its threads were about to send at that very moment are not prevented.
    sync.ends_green_and_right(done, hit, twice=8 * len(hit))


def test_snapshot_of_a_killed_worker_is_published_by_the_retry(cluster: Cluster) -> None:
    from upath import UPath

    from airflow_provider_analytics.snapshots.catalog import list_snapshots, read_snapshot
    from airflow_provider_analytics.storage import StoragePath

    cluster.workers()
    api, sandbox = cluster.airflow.api, cluster.sandbox
    sandbox.reset()
    sandbox.seed(MANY[1])
    sandbox.fault("list", delay=1, times=None)
    dag_id, folder, began = "nightly_website_snapshot", "snapshots", time.monotonic()
    api.unpause(dag_id)
    run_id = api.trigger(dag_id)
    pages = wait_for("some pages", lambda: len(sandbox.requests) if len(sandbox.requests) >= 8 else None)
    [(worker, state)] = api.tries(dag_id, run_id, "snapshot")
    assert state == "running"
    killed = cluster.kill_all_of(worker)
    assert cluster.objects(folder) == {}
    sandbox.clear_faults()
    cluster.workers()
    run = api.wait(dag_id, run_id, patience=600)
    assert run.state == "success"
    assert run.tasks["snapshot"].try_number == 2
    options: Any = {"key": "test", "secret": "test", "client_kwargs": {"endpoint_url": cluster.servers.s3}}
    base = StoragePath.of(UPath(f"s3://{BUCKET}/{folder}", **options))
    [entry] = list_snapshots(base, verify=True)
    assert entry.is_whole
    assert entry.snapshot is not None
    read = read_snapshot(base, entry.snapshot.manifest.snapshot_date)
    assert read is not None
    rows = Counter(row["id"] for row in read.rows())
    assert rows == Counter(str(website["id"]) for website in sandbox.websites())
    done = f"SIGKILL of {worker}, {killed} processes, after {pages} pages of a snapshot: the bucket stays empty"
    cluster.row(done, run, began, f"{rows.total():,} of {MANY[1]:,} published, none twice")
