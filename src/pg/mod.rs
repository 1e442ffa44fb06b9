//! Postgres: everything that calls the server's C functions for more than one room.
//!
//! The rest of the extension is written in safe Rust. These files call C functions:
//!
//! | file | wraps |
//! |---|---|
//! | [`compat`] | functions that pgrx leaves out, and what differs between PostgreSQL 15 and 18 |
//! | [`calls`] | functions that the server calls: workers' entry points, triggers, planner support |
//! | [`custom_scan`] | plans of the extension's own |
//! | [`cursor`] | cursors with the snapshot of the client's statement |
//! | [`dictionaries`], [`headline`] | dictionaries of text search, and where their lexemes are |
//! | [`executor`] | functions of the executor that run nodes of a plan |
//! | [`hooks`] | hooks of the server |
//! | [`json`] | `jsonb` arguments |
//! | [`lock`] | heavyweight locks: all lock tags of the extension, and locks on relations |
//! | [`lookup`] | the system caches and the relation cache |
//! | [`memory`] | the allocator |
//! | [`planner`] | the hooks of the planner, and further paths of a relation |
//! | [`process`] | this process: variables, settings, signals, exit callbacks, children |
//! | [`text_search`] | text search configurations, and the lexemes of texts |
//! | [`transaction`] | transactions, subtransactions, snapshots, callbacks at the end |
//! | [`words`] | the lexemes of many texts |
//!
//! The other files build on them:
//!
//! | file | contents |
//! |---|---|
//! | [`analyzer`] | how texts become terms |
//! | [`roles`] | roles and their rights |
//! | [`extension`], [`install`] | the extension's objects in the catalogs, and its files |
//! | [`version`] | versions of the library and of the extension, which may differ |
//! | [`spi`] | statements, and the tokens of rights that they run through |
//! | [`explain`] | plans of statements |
//! | [`guc`] | settings |
//! | [`wait`], [`worker`] | waits that can be interrupted, and background workers |
//! | [`disk_space`] | room for what is about to be written |

pub mod analyzer;
pub mod calls;
pub mod compat;
pub mod cursor;
pub mod custom_scan;
pub mod dictionaries;
pub mod disk_space;
pub mod executor;
pub mod explain;
pub mod extension;
pub mod guc;
pub mod headline;
pub mod hooks;
pub mod install;
pub mod json;
pub mod lock;
pub mod lookup;
pub mod memory;
pub mod planner;
pub mod process;
pub mod roles;
pub mod spi;
pub mod text_search;
pub mod transaction;
pub mod version;
pub mod wait;
pub mod words;
pub mod worker;
