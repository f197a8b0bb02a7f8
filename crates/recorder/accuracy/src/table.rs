//! Tables of figures.

/// Rows of cells with headings: the first column is left-aligned, the others right-aligned.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<S: Into<String>>(heads: impl IntoIterator<Item = S>) -> Table {
        let mut table = Table::default();
        table.row(heads);
        table
    }

    pub(crate) fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// The table as lines.
    pub(crate) fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                line += &match column {
                    0 => format!("{cell:<width$}", width = widths[0]),
                    _ => format!("  {cell:>width$}", width = widths[column]),
                };
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

/// A formatted number, or N/A.
pub(crate) fn figure(value: Option<f64>) -> String {
    value.map_or_else(|| "N/A".to_owned(), |value| format!("{value}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(["", "a", "b"]);
        table.row(["RRDtool".to_owned(), figure(Some(22.0)), figure(None)]);
        assert_eq!(table.text(), "          a    b\nRRDtool  22  N/A\n");
    }
}
