# SPDX-License-Identifier: Apache-2.0
"""The manifests in examples/kubernetes, and the pods that Kubernetes creates from them: the names
and environments that the documentation of Kubernetes and Kubeflow promises."""

import dataclasses
import pathlib
import re

import yaml

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples" / "kubernetes"
DOMAIN = "default.svc.cluster.local"
API_SERVER = {"KUBERNETES_SERVICE_HOST": "10.3.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@dataclasses.dataclass
class Pod:
    name: str
    subdomain: str
    env: dict
    command: list

    @property
    def full_name(self):
        return f"{self.name}.{self.subdomain}.{DOMAIN}"


def documents(name):
    return list(yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text()))


def expanded(words, env):
    """Expands $(NAME) in a command, like the kubelet."""
    return [re.sub(r"\$\((\w+)\)", lambda found: env[found[1]], word) for word in words]


def pods_of_job(job, name, subdomain, notes, more=None):
    """The pods of an Indexed Job, with these annotations."""
    assert job["completionMode"] == "Indexed"
    container, = job["template"]["spec"]["containers"]
    out = []
    for index in range(job["completions"]):
        env = {**API_SERVER, "JOB_COMPLETION_INDEX": str(index), **(more or {})}
        for one in container.get("env", []):
            path = one["valueFrom"]["fieldRef"]["fieldPath"]
            env[one["name"]] = notes[re.fullmatch(r"metadata\.annotations\['(.+)'\]", path)[1]]
        out.append(Pod(f"{name}-{index}", subdomain, env, expanded(container["command"], env)))
    return out


def indexed_job():
    _, job = documents("indexed-job")
    name = job["metadata"]["name"]
    return pods_of_job(job["spec"], name, job["spec"]["template"]["spec"]["subdomain"], {})


def jobset():
    one, = documents("jobset")
    name = one["metadata"]["name"]
    replicated, = one["spec"]["replicatedJobs"]
    notes = {"jobset.sigs.k8s.io/jobset-name": name, "jobset.sigs.k8s.io/restart-attempt": "0"}
    # The subdomain is the JobSet's name unless the manifest sets one.
    subdomain = one["spec"]["network"].get("subdomain", name)
    return pods_of_job(replicated["template"]["spec"], f"{name}-{replicated['name']}-0", subdomain,
                       notes)


def trainjob():
    one, = documents("trainjob")
    name, trainer = one["metadata"]["name"], one["spec"]["trainer"]
    count = trainer["numNodes"]
    job = {"completionMode": "Indexed", "completions": count,
           "template": {"spec": {"containers": [{"command": trainer["command"]}]}}}
    pods = pods_of_job(job, f"{name}-node-0", name, {}, {
        "PET_NNODES": str(count), "PET_NPROC_PER_NODE": "1",
        "PET_MASTER_ADDR": f"{name}-node-0-0.{name}", "PET_MASTER_PORT": "29500"})
    for index, pod in enumerate(pods):
        pod.env["PET_NODE_RANK"] = str(index)
    return pods
