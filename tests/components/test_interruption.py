"""How a provider process notices that it must stop; each case is a process of its own, as the engine starts one."""

import subprocess
import sys
import textwrap

PRELUDE = """
    import sys, time, socket, threading
    import grpc
    from google.protobuf import empty_pb2
    from pulumi.runtime.proto import ResourceProviderServicer

    class DynamicResourceProviderServicer(ResourceProviderServicer):
        def Cancel(self, request, context):
            return empty_pb2.Empty()

    bound = DynamicResourceProviderServicer().Cancel
    engine = socket.create_server(("127.0.0.1", 0))
    sys.argv = ["provider", "127.0.0.1:%d" % engine.getsockname()[1]]
    from gpustack_components.components import interruption
"""


def run(body: str) -> subprocess.CompletedProcess[str]:
    program = textwrap.dedent(PRELUDE) + textwrap.dedent(body)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)


def test_the_engine_s_cancel_call_stops_a_wait_within_two_seconds():
    done = run("""
        with interruption.operation() as stop:
            assert not stop.wait(1.2) and interruption.interrupted() == ""
            assert bound(None, None) == empty_pb2.Empty()
            assert stop.wait(2)
        print(interruption.interrupted())
    """)
    assert (done.returncode, done.stdout) == (0, "interrupted by the user\n"), done.stderr


def test_the_end_of_the_engine_stops_a_wait_and_then_the_process():
    done = run("""
        with interruption.operation() as stop:
            engine.close()
            assert stop.wait(5)
            print(interruption.interrupted(), flush=True)
        time.sleep(30)
    """)
    assert (done.returncode, done.stdout) == (1, "the engine is gone\n"), done.stderr


def test_a_second_interrupt_stops_a_wait():
    done = run("""
        import concurrent.futures.thread
        with interruption.operation() as stop:
            concurrent.futures.thread._shutdown = True
            assert stop.wait(2)
        print(interruption.interrupted())
    """)
    assert (done.returncode, done.stdout) == (0, "the engine is shutting down\n"), done.stderr


def test_an_sdk_without_a_known_cancel_means_no_early_stop_and_nothing_worse():
    done = run("""
        del DynamicResourceProviderServicer
        with interruption.operation() as stop:
            assert not stop.wait(1)
        print(interruption.hear_cancel())
    """)
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr
