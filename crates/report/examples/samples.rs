//! Writes every exporter's output for the sample runs to a folder, for inspection:
#![allow(clippy::unwrap_used, clippy::print_stdout)] // a tool for whoever changes the exporters

#[path = "../tests/sample/mod.rs"]
mod sample;

use std::path::PathBuf;

use report::{Style, csv, html, json, markdown, pictures, terminal};

fn main() {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "samples".to_owned()));
    std::fs::create_dir_all(&folder).unwrap();
    for (name, run) in sample::all() {
        let write = |ending: &str, text: String| {
            std::fs::write(folder.join(format!("{name}.{ending}")), text).unwrap();
        };
        write("txt", terminal(&run, &Style::default()));
        write("ansi", terminal(&run, &Style { colour: true, width: 100 }));
        write("md", markdown(&run));
        write("csv", csv(&run));
        write("json", serde_json::to_string_pretty(&json(&run)).unwrap());
        write("html", html(&run));
        for picture in pictures(&run) {
            write(&format!("{}.svg", picture.name), picture.svg.standalone());
        }
        println!("{name}");
    }
}
