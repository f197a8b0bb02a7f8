//! Where the record is unless the user says otherwise.

use std::path::PathBuf;

use crate::RecordError;

/// Default location of the record: `tachograph/record.sqlite` in the XDG data folder
/// (`~/.local/share`). Whether `TACHOGRAPH_RECORD` names another, which may be a URL, is known to those
/// who read options.
///
/// Source: XDG Base Directory Specification 0.8; a relative `XDG_DATA_HOME` counts as unset.
///
/// # Errors
/// [`RecordError::NoPlace`].
pub fn default_path() -> Result<PathBuf, RecordError> {
    path_from(|name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from))
}

fn path_from(variable: impl Fn(&str) -> Option<PathBuf>) -> Result<PathBuf, RecordError> {
    variable("XDG_DATA_HOME")
        .filter(|path| path.is_absolute())
        .or_else(|| variable("HOME").map(|home| home.join(".local/share")))
        .map(|data| data.join("tachograph/record.sqlite"))
        .ok_or(RecordError::NoPlace)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(variables: &[(&str, &str)]) -> Result<PathBuf, RecordError> {
        path_from(|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| PathBuf::from(value))
        })
    }

    #[test]
    fn the_record_is_in_the_xdg_data_folder_by_default() {
        let home = ("HOME", "/home/ada");
        let default = PathBuf::from("/home/ada/.local/share/tachograph/record.sqlite");
        assert_eq!(place(&[home]).unwrap(), default);
        assert_eq!(place(&[home, ("XDG_DATA_HOME", "relative")]).unwrap(), default);
        assert_eq!(
            place(&[home, ("XDG_DATA_HOME", "/data")]).unwrap(),
            PathBuf::from("/data/tachograph/record.sqlite")
        );
        let elsewhere = ("TACHOGRAPH_RECORD", "postgres://user@host/database");
        assert_eq!(place(&[home, elsewhere]).unwrap(), default, "no folder is named after a URL");
        assert_eq!(
            place(&[]).unwrap_err().to_string(),
            "no location for the record: neither XDG_DATA_HOME nor HOME is set; set TACHOGRAPH_RECORD \
             to a file"
        );
    }
}
