//! Sources, read from real servers and repositories.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

mod bucket;
mod clouds;
mod errors;
mod folder;
mod git;
mod git_access;
mod git_fetch;
mod git_http;
mod git_refused;
mod git_tags;
mod guard;
mod guarded;
mod redirects;
mod repository;
mod s3;
mod s3_hostile;
mod served;
mod server;
mod site;
mod static_files;
mod support;
mod throttling;
mod tls;
mod web;
mod website;
mod website_addresses;
mod website_pages;
