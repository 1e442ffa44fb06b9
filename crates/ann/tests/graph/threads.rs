//! Cancelling, panics, signals and independence of threads.

use super::*;

#[test]
fn build_can_be_cancelled_and_begun_again() {
    let vectors = clustered(3000, 30, 4);
    let quantizer = quantizer(Metric::L2, 30, &vectors);
    let mut graph = Graph::new(&quantizer, PARAMETERS, 3000);
    graph.encode(&vectors, 2).unwrap();
    for allowed in [0, 1, 3] {
        let mut ticks = 0;
        let result = graph.build(2, |_| {
            ticks += 1;
            ticks <= allowed
        });
        assert_eq!((result, ticks), (Err(BuildError::Cancelled), allowed + 1));
        assert_eq!((graph.entry(), graph.links(0, 0)), (None, &[][..]));
    }
    let mut done = 0;
    graph
        .build(2, |now| {
            assert!(done <= now && now <= 3000);
            done = now;
            true
        })
        .unwrap();
    assert_eq!(done, 3000);
    check(&graph, PARAMETERS.m);
}

#[test]
fn each_step_can_be_cancelled() {
    let vectors = clustered(30_000, 30, 4);
    let quantizer = quantizer(Metric::L2, 30, &vectors);
    let graph = built(
        &quantizer,
        &vectors,
        Parameters {
            ef_construction: 10,
            ..PARAMETERS
        },
        2,
    );
    for allowed in 0.. {
        let mut ticks = 0;
        let order = graph.page_order(10, 2, &mut || {
            ticks += 1;
            ticks <= allowed
        });
        if order.is_ok() {
            assert!(allowed > 3, "it looks after its caller while it works");
            return;
        }
        assert_eq!((order, ticks), (Err(BuildError::Cancelled), allowed + 1));
    }
}

#[test]
fn order_of_pages_does_not_depend_on_threads() {
    let vectors = clustered(30_000, 8, 4);
    let quantizer = quantizer(Metric::L2, 8, &vectors);
    let graph = built(
        &quantizer,
        &vectors,
        Parameters {
            ef_construction: 10,
            ..PARAMETERS
        },
        2,
    );
    let order = |threads| graph.page_order(10, threads, &mut || true).unwrap();
    assert!(order(1) == order(4));
}

#[test]
fn panic_of_the_caller_stops_the_threads() {
    let vectors = clustered(3000, 30, 4);
    let quantizer = quantizer(Metric::L2, 30, &vectors);
    let mut graph = Graph::new(&quantizer, PARAMETERS, 3000);
    graph.encode(&vectors, 2).unwrap();
    let build = std::panic::AssertUnwindSafe(|| {
        graph.build(2, |done| if done < 300 { true } else { panic!("enough") })
    });
    assert!(std::panic::catch_unwind(build).is_err());
    assert_eq!(graph.entry(), None);
}

/// The threads of other tests of this process count as well; all of them must be like that.
#[cfg(target_os = "linux")]
#[test]
fn threads_get_no_signals() {
    let vectors = clustered(20_000, 30, 4);
    let quantizer = quantizer(Metric::L2, 30, &vectors);
    let mut graph = Graph::new(&quantizer, PARAMETERS, 20_000);
    graph.encode(&vectors, 2).unwrap();
    let mut seen = 0;
    let look = |_| {
        for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
            let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
            let field = |name| {
                status
                    .lines()
                    .find_map(|line| line.strip_prefix(name))
                    .map(str::trim)
            };
            // one that has just ended gets none, whatever it blocks
            let has_ended = field("State:").is_none_or(|state| state.starts_with(['X', 'Z']));
            if field("Name:") == Some("rag graph")
                && !has_ended
                && let Some(blocked) = field("SigBlk:")
            {
                // all but SIGKILL, SIGSTOP, and two that the C library keeps for itself and blocks
                // as it likes
                let of_the_library = 0x0000_0001_8000_0000;
                let blocked = u64::from_str_radix(blocked, 16).unwrap() | of_the_library;
                assert_eq!(blocked, 0xffff_ffff_fffb_feff, "{status}");
                seen += 1;
            }
        }
        true
    };
    graph.build(2, look).unwrap();
    assert!(seen > 0);
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    assert!(
        status.contains("SigBlk:\t0000000000000000"),
        "the caller's own signals are blocked: {status}"
    );
}
