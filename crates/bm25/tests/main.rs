//! The keyword index: its life, its searches and its corruption.

mod damage;
mod life;
mod search;
mod support;
