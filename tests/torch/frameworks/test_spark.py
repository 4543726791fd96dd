# SPDX-License-Identifier: Apache-2.0
"""muster.spark.TorchDistributor with a real Spark: on the driver, and as a barrier stage on two
executors in separate processes."""
import contextlib
import io
import os
import signal
import sys
import types
import unittest
from unittest import mock

os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["OMP_NUM_THREADS"] = "1"

from pyspark.ml.torch import distributor  # noqa: E402
from pyspark.ml.torch.distributor import TorchDistributor as Theirs  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402

import muster  # noqa: E402
from muster import spark  # noqa: E402
from support import Case  # noqa: E402


def train(rate, steps=1):
    import torch
    import torch.distributed as dist
    dist.init_process_group("gloo")
    total = torch.ones(1) * (dist.get_rank() + 1)
    dist.all_reduce(total)
    found = (rate, steps, dist.get_rank(), dist.get_world_size(), total.item(),
             os.environ["CUDA_VISIBLE_DEVICES"])
    dist.destroy_process_group()
    return found


def fail():
    if os.environ["RANK"] == "1":
        raise KeyError("on an executor")
    signal.pause()


class SparkCase(Case):
    master = "local[2]"

    @classmethod
    def setUpClass(cls):
        builder = SparkSession.builder.master(cls.master).config("spark.ui.enabled", "false")
        builder = builder.config("spark.ui.showConsoleProgress", "false")
        cls.session = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
        cls.session.sparkContext.setLogLevel("ERROR")

    @classmethod
    def tearDownClass(cls):
        cls.session.stop()

    def distributor(self, local):
        return spark.TorchDistributor(num_processes=2, local_mode=local, use_gpu=False)

    def function(self, local):
        self.assertEqual(self.distributor(local).run(train, 0.5, steps=3), (0.5, 3, 0, 2, 3.0, ""))

    def failure(self, local):
        with self.assertRaises(muster.WorkerError) as caught:
            self.distributor(local).run(fail)
        self.assertEqual((caught.exception.rank, repr(caught.exception.__cause__)),
                         (1, "KeyError('on an executor')"))
        self.assertIn('raise KeyError("on an executor")', str(caught.exception))

    def file(self, local):
        path = self.write("program.py", "import os, sys\n"
                          "open(os.path.join(sys.argv[1], os.environ['RANK']), 'w').write("
                          "os.environ['WORLD_SIZE'] + ' ' + sys.argv[2])\n")
        folder = os.path.join(self.folder, "out")
        os.mkdir(folder)
        self.assertIsNone(self.distributor(local).run(path, folder, "--lr=1"))
        found = {}
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                found[name] = file.read()
        self.assertEqual(found, {"0": "2 --lr=1", "1": "2 --lr=1"})


class OnTheDriver(SparkCase):
    def test_a_function(self):
        self.function(local=True)

    def test_a_failure(self):
        self.failure(local=True)

    def test_a_file(self):
        self.file(local=True)

    def test_a_barrier_stage_in_the_drivers_process(self):
        self.function(local=False)

    def test_wrong_arguments(self):
        for wrong in ({"num_processes": 0}, {"use_gpu": True}):
            with self.subTest(wrong):
                for kind in (spark.TorchDistributor, Theirs):
                    with self.assertRaises((ValueError, RuntimeError)) as caught:
                        kind(**{"num_processes": 2, "local_mode": True, "use_gpu": False,
                                **wrong}).run(fail)
                    self.assertNotIsInstance(caught.exception, muster.JobError)

    def test_gpus_that_spark_gives(self):
        """Like PySpark's own: addresses are indices into CUDA_VISIBLE_DEVICES."""
        resources = {"gpu": types.SimpleNamespace(addresses=["2", "0"])}
        given_by_spark = mock.patch.object(distributor, "_get_resources", lambda _: resources)
        self.addCleanup(given_by_spark.stop)
        given_by_spark.start()
        for given in (None, "4,5,6"):
            with mock.patch.dict(os.environ):
                os.environ.pop("CUDA_VISIBLE_DEVICES", None)
                if given:
                    os.environ["CUDA_VISIBLE_DEVICES"] = given
                self.assertEqual(spark.visible(["2", "0"], 2),
                                 ",".join(distributor._get_gpus_owned(None)))


class OnExecutors(SparkCase):
    master = "local-cluster[2,1,1024]"

    def test_a_function(self):
        self.function(local=False)

    def test_a_failure(self):
        self.failure(local=False)
        self.function(local=False)  # the session stays alive

    def test_a_file(self):
        self.file(local=False)

    def test_output_of_the_ranks_reaches_the_driver(self):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            spark.TorchDistributor(2, local_mode=False, use_gpu=False).run(lambda: print("here"))
        self.assertEqual(sorted(out.getvalue().splitlines()), ["[rank 0]: here", "[rank 1]: here"])

    def test_encryption_is_not_silently_left_out(self):
        self.session.sparkContext._conf.set("spark.ssl.enabled", "true")
        self.addCleanup(self.session.sparkContext._conf.set, "spark.ssl.enabled", "false")
        with self.assertRaisesRegex(RuntimeError, "ranks communicate without encryption"):
            self.distributor(local=False).run(fail)


if __name__ == "__main__":
    unittest.main(verbosity=2)
