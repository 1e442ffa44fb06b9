//! A segment: an inverted index of some documents on pages. It is written once. Afterwards only the
//! marks of deleted documents change.
//!
//! | file | contents |
//! |---|---|
//! | [`layout`] | every field of a segment's pages |
//! | [`owned`] | reads pages of a segment |
//! | [`postings`] | which documents have a term: blocks of 128, and short lists |
//! | [`positions`] | where in its documents a term occurs |
//! | [`dictionary`] | from terms to their postings: a B-tree that is written once |
//! | [`writer`] | writes a segment, term by term |
//! | [`reader`] | opens a segment: its documents and its lists |
//! | [`rows`] | the heap rows of its documents |
//! | [`inverted`] | an inverted index in memory, before it is written |
//! | [`merge`] | one segment of several |
//! | [`verify`] | checks everything in a segment |

pub mod dictionary;
pub mod inverted;
pub mod layout;
pub mod merge;
pub mod owned;
pub mod positions;
pub mod postings;
pub mod reader;
pub mod rows;
pub mod verify;
pub mod writer;

pub use inverted::Inverted;
pub use merge::merge;
pub use reader::SegmentReader;
pub use writer::WrittenSegment;
