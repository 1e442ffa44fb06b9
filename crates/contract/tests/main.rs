//! Requests and answers in JSON.

mod answers;
mod requests;
