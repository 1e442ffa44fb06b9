//! Ranks and measures, against what their definitions say.

mod bootstrap;
mod fusion;
mod measures;
mod weights;
