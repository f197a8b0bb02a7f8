//! Tests of the program, a module for each subject: one program, because linking each of them took
//! longer than many of them run.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

mod actions;
mod bad_input;
mod capacity;
mod cleanup;
mod compare;
mod diff;
mod docker;
mod documents;
mod events;
mod experiments;
mod export;
mod far;
mod far_agents;
mod faults;
mod first_use;
mod generated;
mod grpc;
mod hive_login;
mod import_formats;
mod import_trouble;
mod layers;
mod layout;
mod lines;
mod load;
mod memory;
#[path = "../../../recorder/formats/tests/messages/types.rs"]
mod messages;
mod nginx;
mod packaging;
mod power_cuts;
mod publish;
mod replay;
mod requests;
mod results;
mod run_series;
mod secrets;
mod series;
mod series_accuracy;
mod serve;
mod serve_access;
mod serve_clients;
mod serve_files;
mod serve_messages;
mod serve_outages;
mod serve_repeats;
mod serve_restarts;
mod serve_runs;
mod serve_senders;
mod serve_trouble;
mod serve_ways;
mod serve_writers;
mod ssh;
mod support;
mod why;
