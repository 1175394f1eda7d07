"""The experiments of the paper that Rheos takes its model from, and what draws their page.

    python -m benchmarks.paper throughput            # one experiment, by its name
    python -m benchmarks.paper throughput --quick    # in under a minute, to try it
    python -m benchmarks.paper all                   # one after the other
    python -m benchmarks.paper page                  # docs/benchmarks.md, from the results

An experiment is a module with an `Experiment`, and a line in `experiments.py`. It measures, which gives
plain JSON, and shows what is in such JSON as plots and Markdown, which can be done again at any time.
"""
