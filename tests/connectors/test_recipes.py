"""The recipes of ``examples/deploy`` are what their tools and this command accept."""

import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from streamddcrp_connectors.cli import run
from streamddcrp_connectors.run.loop import Summary

from .servers import free_port

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "deploy"


@pytest.fixture(scope="module")
def job():
    return run.make_context("run", ["--config", str(FOLDER / "job.toml")]).params


def is_accepted(command, job):
    """Whether the options of a container are those of a run, and its folders those of the job."""
    assert command[:3] == ["run", "--config", "/etc/streamddcrp/job.toml"]
    assert command[3:] in ([], ["--check"])
    written = [job[name] for name in ("sink", "events", "checkpoint")]
    assert all(path.startswith("/data/") for path in written)


def test_compose(job):
    services = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    service = services["services"]["streamddcrp"]
    is_accepted(service["command"], job)
    mounted = [volume.split(":")[1] for volume in service["volumes"]]
    assert mounted == ["/etc/streamddcrp/job.toml", "/data"]
    hosts = {job[name].partition("://")[2].partition(":")[0] for name in ("source", "alarms")}
    assert hosts < services["services"].keys()
    all_of = services["services"].values()
    named = {volume.partition(":")[0] for one in all_of for volume in one.get("volumes", [])}
    files = {name for name in named if name.startswith(".")}
    assert named - files == services["volumes"].keys()
    assert all((FOLDER / name).is_file() for name in files)
    used = {config["source"] for one in all_of for config in one.get("configs", [])}
    assert used == services["configs"].keys()


def test_prometheus_and_grafana(job, tmp_path):
    compose = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    given = {name: one["content"] for name, one in compose["configs"].items()}
    (scraped,) = yaml.safe_load(given["prometheus"])["scrape_configs"]
    port = job["metrics"].rpartition(":")[2]
    assert scraped["static_configs"] == [{"targets": [f"streamddcrp:{port}"]}]
    (source,) = yaml.safe_load(given["sources"])["datasources"]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = yaml.safe_load(given["dashboards"])["providers"]
    folder = provider["options"]["path"]
    mounted = compose["services"]["grafana"]["volumes"]
    assert [volume.split(":")[1] for volume in mounted] == [f"{folder}/streamddcrp.json"]
    for tool, words in (("promtool", ["check", "config"]), ("amtool", ["check-config"])):
        if shutil.which(tool) is not None:
            (tmp_path / tool).write_text(
                given["prometheus" if tool == "promtool" else "alertmanager"]
            )
            command = [tool, *words, tmp_path / tool]
            assert subprocess.run(command, check=False, capture_output=True).returncode == 0


def test_the_image_is_as_healthy_as_the_run(job):
    pytest.importorskip("prometheus_client")
    from streamddcrp_connectors.live.metrics import Metrics

    image = (FOLDER.parents[1] / "Dockerfile").read_text()
    command = json.loads(re.search(r"^HEALTHCHECK .*CMD (.*)$", image, re.MULTILINE)[1])
    assert f"127.0.0.1:{job['metrics'].rpartition(':')[2]}/" in command[2]
    port = free_port()
    script = command[2].replace(":9100/", f":{port}/")

    def status():
        done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True)
        return done.returncode

    assert status() == 0  # nothing is served, so nothing is judged
    metrics = Metrics(f"127.0.0.1:{port}")
    try:
        metrics.begin(Summary())
        assert status() == 0
        metrics.begin(Summary(alive=time.monotonic() - 301))
        assert status() == 1
    finally:
        metrics.close()


def test_kubernetes(job):
    service, made = yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text())
    spec = made["spec"]
    pod = spec["template"]["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert made["kind"] == "StatefulSet"
    assert spec["replicas"] == 1  # a checkpoint is of one job
    assert service["spec"]["selector"] == spec["selector"]["matchLabels"] == labels
    assert spec["serviceName"] == service["metadata"]["name"]
    volumes = {volume["name"] for volume in pod["volumes"]}
    volumes |= {claim["metadata"]["name"] for claim in spec["volumeClaimTemplates"]}
    for container in (*pod["initContainers"], *pod["containers"]):
        is_accepted(container["args"], job)
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes
        assert "/data" in {mount["mountPath"] for mount in container["volumeMounts"]}
    (port,) = pod["containers"][0]["ports"]
    assert job["metrics"] == f"0.0.0.0:{port['containerPort']}"
    for probe, path in (("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        assert pod["containers"][0][probe]["httpGet"] == {"path": path, "port": port["name"]}


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not here")
def test_kubectl_makes_the_config_map():
    done = subprocess.run(
        ["kubectl", "kustomize", FOLDER], check=True, capture_output=True, text=True, timeout=60
    )
    config, _, made = yaml.safe_load_all(done.stdout)
    assert config["data"] == {"job.toml": (FOLDER / "job.toml").read_text()}
    volumes = made["spec"]["template"]["spec"]["volumes"]
    assert volumes[0]["configMap"] == {"name": config["metadata"]["name"]}


def test_compose_is_what_its_specification_allows():
    models = pytest.importorskip("compose_spec.models")
    given = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    models.ComposeSpecification.model_validate(given, extra="forbid", by_alias=True)


def test_kubernetes_accepts_its_objects():
    kubernetes = pytest.importorskip("kubernetes_validate")
    for given in yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text()):
        kubernetes.validate(given, kubernetes.latest_version(), strict=True)


def test_the_dashboard_keeps_all_it_says_in_the_types_of_grafana():
    dashboards = pytest.importorskip("grafana_foundation_sdk.models.dashboard")
    encoder = pytest.importorskip("grafana_foundation_sdk.cog.encoder")
    pytest.importorskip("grafana_foundation_sdk.cog.plugins").register_default_plugins()
    given = json.loads((FOLDER.parents[1] / "docs" / "grafana-dashboard.json").read_text())

    def lost(before, after):
        if isinstance(before, dict):
            return [
                name
                for name, value in before.items()
                if name not in after or lost(value, after[name])
            ]
        if isinstance(before, list):
            return [pair for pair in zip(before, after, strict=True) if lost(*pair)]
        return [] if before == after else [before]

    def kept():
        return json.loads(encoder.JSONEncoder().encode(dashboards.Dashboard.from_json(given)))

    assert lost(given, kept()) == []
    given["panels"][0]["targets"][0]["query"] = "up"  # such a field there is not
    assert lost(given, kept()) == ["panels"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here")
def test_systemd(tmp_path):
    unit = tmp_path / "streamddcrp.service"
    text = (FOLDER / unit.name).read_text()
    unit.write_text(text.replace("/opt/streamddcrp/bin/streamddcrp", shutil.which("true")))
    said = subprocess.run(
        ["systemd-analyze", "verify", unit], check=False, capture_output=True, text=True, timeout=60
    )
    ours = [line for line in said.stderr.splitlines() if unit.name in line]
    assert (said.returncode, ours) == (0, [])
