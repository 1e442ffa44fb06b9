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
mod git_lfs;
mod git_refused;
mod git_ssh;
mod git_ssh_access;
mod git_ssh_hostile;
mod git_submodules;
mod git_tags;
mod guard;
mod guarded;
mod lfs;
mod over_ssh;
mod redirects;
mod repository;
mod s3;
mod s3_hostile;
mod served;
mod server;
mod site;
mod sshd;
mod static_files;
mod support;
mod throttling;
mod tls;
mod web;
mod website;
mod website_addresses;
mod website_languages;
mod website_lists;
mod website_pages;
