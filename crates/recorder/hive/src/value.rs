//! Results: columns as the protocol sends them, values as they are read.

use crate::tcli::{TColumn, TRowSet};

/// A value of a result.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// NULL.
    Null,
    /// BOOLEAN.
    Bool(bool),
    /// TINYINT to BIGINT.
    Int(i64),
    /// FLOAT and DOUBLE.
    Double(f64),
    /// STRING and everything that is sent as text: DATE, TIMESTAMP, DECIMAL, complex types.
    Text(String),
    /// BINARY.
    Bytes(Vec<u8>),
}

impl Value {
    /// An integer, also one that was sent as text, as DECIMAL is.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::Int(value) => Some(*value),
            Value::Text(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// A number.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Int(value) => Some(*value as f64),
            Value::Double(value) => Some(*value),
            Value::Text(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// A text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A boolean, also one that was sent as text.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(value) => Some(*value),
            Value::Text(text) => text.parse().ok(),
            _ => None,
        }
    }
}

/// The rows of a set of columns; an error if the columns differ in length.
pub(crate) fn rows(set: TRowSet) -> Result<Vec<Vec<Value>>, String> {
    let columns: Vec<Vec<Value>> =
        set.columns.unwrap_or_default().into_iter().map(column).collect();
    let count = columns.first().map_or(0, Vec::len);
    if columns.iter().any(|column| column.len() != count) {
        return Err("the columns of a result differ in length".to_owned());
    }
    let mut rows: Vec<Vec<Value>> = (0..count).map(|_| Vec::with_capacity(columns.len())).collect();
    for column in columns {
        for (row, value) in rows.iter_mut().zip(column) {
            row.push(value);
        }
    }
    Ok(rows)
}

fn column(column: TColumn) -> Vec<Value> {
    match column {
        TColumn::BoolVal(c) => values(c.values, &c.nulls, Value::Bool),
        TColumn::ByteVal(c) => values(c.values, &c.nulls, |v| Value::Int(v.into())),
        TColumn::I16Val(c) => values(c.values, &c.nulls, |v| Value::Int(v.into())),
        TColumn::I32Val(c) => values(c.values, &c.nulls, |v| Value::Int(v.into())),
        TColumn::I64Val(c) => values(c.values, &c.nulls, Value::Int),
        TColumn::DoubleVal(c) => values(c.values, &c.nulls, |v| Value::Double(v.0)),
        TColumn::StringVal(c) => values(c.values, &c.nulls, Value::Text),
        TColumn::BinaryVal(c) => values(c.values, &c.nulls, Value::Bytes),
    }
}

fn values<T>(values: Vec<T>, nulls: &[u8], value: impl Fn(T) -> Value) -> Vec<Value> {
    let is_null = |row: usize| nulls.get(row / 8).is_some_and(|bits| bits >> (row % 8) & 1 == 1);
    let values = values.into_iter().enumerate();
    values.map(|(row, v)| if is_null(row) { Value::Null } else { value(v) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcli::{TI64Column, TStringColumn};

    fn set(columns: Vec<TColumn>) -> TRowSet {
        TRowSet { start_row_offset: 0, columns: Some(columns) }
    }

    #[test]
    fn columns_become_rows_and_their_bits_nulls() {
        let numbers = TI64Column { values: (0..9).collect(), nulls: vec![0b0000_0010, 0b1] };
        let texts = TStringColumn { values: vec!["a".to_owned(); 9], nulls: vec![] };
        let rows = rows(set(vec![TColumn::I64Val(numbers), TColumn::StringVal(texts)])).unwrap();
        assert_eq!(rows.len(), 9);
        assert_eq!(rows[0], [Value::Int(0), Value::Text("a".to_owned())]);
        assert_eq!(rows[1][0], Value::Null);
        assert_eq!(rows[7][0], Value::Int(7));
        assert_eq!(rows[8][0], Value::Null);
    }

    #[test]
    fn columns_of_different_length_are_no_rows() {
        let short = TI64Column { values: vec![1], nulls: vec![] };
        let long = TI64Column { values: vec![1, 2], nulls: vec![] };
        let wrong = rows(set(vec![TColumn::I64Val(short), TColumn::I64Val(long)]));
        assert_eq!(wrong.unwrap_err(), "the columns of a result differ in length");
    }
}
