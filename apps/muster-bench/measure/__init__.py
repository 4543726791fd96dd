# SPDX-License-Identifier: Apache-2.0
"""Runs the benchmark blocks of muster-bench and writes tables, CSV and plots."""
