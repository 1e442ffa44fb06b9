//! Sealed secrets and their files.

mod files;
mod sealing;
