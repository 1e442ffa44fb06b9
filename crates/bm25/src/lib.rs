//! Ranked keyword search over documents, without Postgres: the index `rag_bm25`.
//!
//! `src/index/bm25/README.md` describes the structure, the pages, the locks, and what a crash
//! leaves. The modules:
//!
//! * [`terms`] the terms of a document or a query, [`query`] patterns of terms and conditions,
//!   [`norm`] lengths in one byte, [`score`] BM25, [`phrase`] phrases and nearness
//! * [`segment`] an inverted index on pages, written once; [`search`] what answers a query
//! * [`format`] every field of the other pages, [`meta`] the meta page, [`list`] and [`entry`] what
//!   it leads to, [`pending`] and [`record`] documents that are not in a segment yet,
//!   [`allocate`], [`horizon`] and [`owner`] blocks and who owns them, [`free`] free blocks in
//!   order
//! * [`insert`], [`maintain`], [`vacuum`] change an index under the [`locks`], [`build`] makes one
//!   of a table
//! * [`check`] and [`info`] read the whole index

mod allocate;
mod build;
mod check;
mod entry;
mod format;
mod free;
mod horizon;
mod info;
mod insert;
mod list;
mod locks;
mod maintain;
mod meta;
mod norm;
mod owner;
mod pending;
mod phrase;
mod query;
mod record;
mod score;
mod search;
mod segment;
mod terms;
mod vacuum;

pub use build::Builder;
pub use check::check;
pub use format::LABEL_BYTES;
pub use info::{Info, info};
pub use insert::{Collected, insert};
pub use maintain::merge_all;
pub use meta::{Creation, Description, create, describe};
pub use phrase::{MAX_PLACES, Phrase};
pub use query::{
    Condition, CountedPattern, FoundWord, Match, NumberedPhrase, Pattern, Query, QueryRef, Sought,
    TextTerm, Typo, WantedWords, WordFinder, auto_edits,
};
pub use score::{Parameters, Scorer, Statistics};
pub use search::{
    GivenRows, Listing, NearTerm, RowCount, RowScore, RowScores, Scan, SegmentCache, TableRows,
    count_rows, near_terms, rows_that_may_hold, score_rows, statistics, terms_in_row, top,
};
pub use terms::Terms;
pub use vacuum::{Removal, cleanup, remove};
