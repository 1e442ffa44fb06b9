//! What is done with found chunks, without the database and without a model.
//!
//! | module | what it does |
//! |---|---|
//! | [`fusion`] | ranks what vector search and keyword search have found, and chooses the results |
//! | [`context`] | quotes them in one text of limited size for a language model |
//! | [`answer`] | prompts, conversations and citations of answers |
//! | [`evaluation`] | measures of rankings, and how certain these are |
//! | [`highlight`] | marks the words of a query, and chooses the part of a text that shows them |
//! | [`similarity`] | how much texts have in common |

pub mod answer;
pub mod context;
pub mod evaluation;
pub mod fusion;
pub mod highlight;
pub mod similarity;
