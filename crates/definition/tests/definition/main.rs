//! Settings of retrievers: which are right, and what they say.

mod methods;
mod retrievers;
