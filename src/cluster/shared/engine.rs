//! What is known of the engine of the cluster.

use super::{SHARED, is_present};

/// The engine of the cluster.
#[derive(Debug, Clone, Copy)]
pub struct EngineState {
    /// None while none is running.
    pub pid: Option<i32>,
    /// Number of starts since the server was started.
    pub starts: u64,
}

/// Records that the supervisor has started an engine.
pub fn engine_started(pid: u32) {
    if is_present() {
        let mut shared = SHARED.exclusive();
        shared.engine = i32::try_from(pid).unwrap_or(0);
        shared.engine_starts += 1;
    }
}

pub fn engine_ended() {
    if is_present() {
        SHARED.exclusive().engine = 0;
    }
}

/// Returns None without the shared memory.
pub fn engine() -> Option<EngineState> {
    is_present().then(|| {
        let shared = SHARED.share();
        EngineState {
            pid: (shared.engine != 0).then_some(shared.engine),
            starts: shared.engine_starts,
        }
    })
}
