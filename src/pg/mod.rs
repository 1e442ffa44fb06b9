//! Postgres: everything that talks to the server's C functions for more than one room, and what
//! differs between its versions.

pub mod blocking;
pub mod commit;
pub mod exit;
pub mod extension;
pub mod guc;
pub mod install;
pub mod memory;
pub mod process;
pub mod roles;
pub mod security;
pub mod snapshot;
pub mod spi;
pub mod sqlstate;
pub mod subtransaction;
pub mod transaction;
pub mod wait;
pub mod worker;
