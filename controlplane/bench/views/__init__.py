"""Pages of benchmarks: workloads, runs, comparison."""
