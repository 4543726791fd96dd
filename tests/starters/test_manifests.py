# SPDX-License-Identifier: Apache-2.0
"""The manifests in examples/kubernetes, checked against their schemas, and for consistency that no
schema describes."""

import unittest

import kubernetes_validate
from kubeflow_trainer_api.models.jobset_v1alpha2_job_set import JobsetV1alpha2JobSet
from kubeflow_trainer_api.models.trainer_v1alpha1_train_job import TrainerV1alpha1TrainJob

from manifests import FOLDER, documents

RELEASE = "1.37"


class Schemas(unittest.TestCase):
    def assert_model(self, model, document):
        """Nothing is missing after reading and writing. Reading drops unknown fields."""
        self.assertEqual(model.from_dict(document).to_dict(), document)

    def test_every_manifest_is_checked(self):
        self.assertEqual(sorted(path.name for path in FOLDER.glob("*.yaml")),
                         ["indexed-job.yaml", "jobset.yaml", "trainjob.yaml"])

    def test_indexed_job(self):
        for document in documents("indexed-job"):
            kubernetes_validate.validate(document, RELEASE, strict=True)

    def test_jobset(self):
        document, = documents("jobset")
        self.assertEqual((document["apiVersion"], document["kind"]),
                         ("jobset.x-k8s.io/v1alpha2", "JobSet"))
        self.assert_model(JobsetV1alpha2JobSet, document)
        template = document["spec"]["replicatedJobs"][0]["template"]
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, **template}
        kubernetes_validate.validate(job, RELEASE, strict=True)

    def test_trainjob(self):
        document, = documents("trainjob")
        self.assertEqual((document["apiVersion"], document["kind"]),
                         ("trainer.kubeflow.org/v1alpha1", "TrainJob"))
        self.assert_model(TrainerV1alpha1TrainJob, document)

    def test_a_wrong_field_is_seen(self):
        service, job = documents("indexed-job")
        job["spec"]["completionsMode"] = "Indexed"
        service["spec"]["clusterIp"] = "None"
        for document in (service, job):
            with self.assertRaises(kubernetes_validate.ValidationError):
                kubernetes_validate.validate(document, RELEASE, strict=True)
        for name, model in (("jobset", JobsetV1alpha2JobSet),
                            ("trainjob", TrainerV1alpha1TrainJob)):
            document, = documents(name)
            document["spec"]["replicas"] = 4
            with self.assertRaises(AssertionError):
                self.assert_model(model, document)


class Agreement(unittest.TestCase):
    def test_pods_of_an_indexed_job_have_names(self):
        service, job = documents("indexed-job")
        pod = job["spec"]["template"]["spec"]
        self.assertEqual(service["spec"]["clusterIP"], "None")
        self.assertEqual(pod["subdomain"], service["metadata"]["name"])
        self.assertEqual(service["spec"]["selector"],
                         {"batch.kubernetes.io/job-name": job["metadata"]["name"]})

    def test_all_pods_of_the_job_are_started_and_counted(self):
        _, job = documents("indexed-job")
        jobset, = documents("jobset")
        for spec in (job["spec"], jobset["spec"]["replicatedJobs"][0]["template"]["spec"]):
            self.assertEqual(spec["completions"], spec["parallelism"])
            command = spec["template"]["spec"]["containers"][0]["command"]
            self.assertIn(f"--nnodes={spec['completions']}", command)


if __name__ == "__main__":
    unittest.main()
