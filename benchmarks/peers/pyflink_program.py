"""The benchmark `state-machine` in PyFlink, with a Python function for each event.

It runs in a virtual environment with `apache-flink` and nothing of Rheos. The source and the sink are
in Java (`java/PythonPeer.java`), like the connectors of users. The last line printed is a JSON object.
"""

import sys
import time

from pyflink.common import Configuration, Types
from pyflink.datastream import DataStream, KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.java_gateway import get_gateway
from python_program import INITIAL, RULES, options, print_result

EVENT = Types.ROW([Types.LONG(), Types.STRING(), Types.LONG()])


class Validate(KeyedProcessFunction):
    def open(self, runtime_context):
        self.state = runtime_context.get_state(ValueStateDescriptor("state", Types.STRING()))

    def process_element(self, value, ctx):
        following = RULES.get((self.state.value() or INITIAL, value[1]))
        if following is None:
            yield value
            self.state.clear()
        else:
            self.state.update(following)


def main():
    parser = options()
    parser.add_argument("--mode", choices=["process", "thread"], default="process")
    parser.add_argument("--bundle-rows", type=int, default=1_000)
    parser.add_argument("--bundle-ms", type=int, default=1_000)
    given = parser.parse_args()
    settings = Configuration()
    settings.set_string("python.execution-mode", given.mode)
    settings.set_string("python.fn-execution.bundle.size", str(given.bundle_rows))
    settings.set_string("python.fn-execution.bundle.time", str(given.bundle_ms))
    # A worker that keeps fewer states than there are keys asks Java for most of them, one by one.
    settings.set_string("python.state.cache-size", str(given.keys))
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    env.set_parallelism(given.parallelism)
    env.set_python_executable(sys.executable)
    java = get_gateway().jvm.PythonPeer
    events = DataStream(java.events(env._j_stream_execution_environment, given.keys, 0.0, 0))
    alerts = events.key_by(lambda event: event[0], key_type=Types.LONG()).process(Validate(), EVENT)
    java.drain(alerts._j_data_stream)
    job = env.execute_async("state-machine")
    time.sleep(given.warmup)
    began = time.time_ns()
    java.open()
    time.sleep(given.seconds)
    java.close()
    ended = time.time_ns()
    quantiles = (java.quantile(share) for share in (0.5, 0.99))
    latencies = [None if at == "null" else float(at) for at in quantiles]
    print_result(began, ended, java.rows(), *latencies)
    status = str(job.get_job_status().result())
    if status != "JobStatus.RUNNING":
        sys.exit(f"the job was not running at the end of the measurement: {status}")
    job.cancel().result()


if __name__ == "__main__":
    main()
