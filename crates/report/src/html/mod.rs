//! tmp
/// tmp
pub fn html(_run: &record::Run) -> String {
    String::new()
}
