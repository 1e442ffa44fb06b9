//! Background workers: [`supervisor`] keeps `rag-engine embed` running for the cluster; [`runner`] executes one sync.

pub mod runner;
pub mod supervisor;
pub mod transaction;

/// Registers the workers that start with the server, where the library is in shared_preload_libraries.
pub fn register() {
    supervisor::register();
}
