//! Results: columns as the protocol sends them, values as they are read.

use thrift::protocol::TType;

use crate::call::{FieldName, ResponseStruct};
use crate::error::Fault;
use crate::tree::{Fields, Tree, TreeType};

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

// Numbers and names of Hive's TCLIService.thrift, as in `service`.
const COLUMNS: FieldName = FieldName { id: 3, name: "TRowSet.columns" };
const COLUMN_VALUES: FieldName = FieldName { id: 1, name: "TColumn.*.values" };
const COLUMN_NULLS: FieldName = FieldName { id: 2, name: "TColumn.*.nulls" };

/// The rows of a TRowSet; an error if its columns differ in length.
pub(crate) fn rows(mut set: ResponseStruct) -> Result<Vec<Vec<Value>>, Fault> {
    let columns: Vec<Tree> = set.optional(COLUMNS)?.unwrap_or_default();
    let columns = columns.into_iter().map(|column| values(set.call, column));
    let columns: Vec<Vec<Value>> = columns.collect::<Result<_, Fault>>()?;
    let count = columns.first().map_or(0, Vec::len);
    if columns.iter().any(|column| column.len() != count) {
        return Err(set.wrong("the columns of a result differ in length"));
    }
    let mut rows: Vec<Vec<Value>> = (0..count).map(|_| Vec::with_capacity(columns.len())).collect();
    for column in columns {
        for (row, value) in rows.iter_mut().zip(column) {
            row.push(value);
        }
    }
    Ok(rows)
}

/// The values of a TColumn, a union: its only field tells their type.
fn values(call: &'static str, column: Tree) -> Result<Vec<Value>, Fault> {
    let mut set = ResponseStruct::new(call, vec![(0, column)]);
    let union: Fields = set.required(FieldName { id: 0, name: "a TColumn" })?;
    let [(id, _)] = union[..] else {
        return Err(set.wrong(format_args!("a TColumn has {} fields instead of 1", union.len())));
    };
    let (name, value): (_, fn(Tree) -> Option<Value>) = match id {
        1 => ("TColumn.boolVal", |tree| bool::content(tree).map(Value::Bool)),
        2 => ("TColumn.byteVal", |tree| Some(Value::Int(i8::content(tree)?.into()))),
        3 => ("TColumn.i16Val", |tree| Some(Value::Int(i16::content(tree)?.into()))),
        4 => ("TColumn.i32Val", |tree| Some(Value::Int(i32::content(tree)?.into()))),
        5 => ("TColumn.i64Val", |tree| i64::content(tree).map(Value::Int)),
        6 => ("TColumn.doubleVal", |tree| f64::content(tree).map(Value::Double)),
        7 => ("TColumn.stringVal", |tree| {
            String::from_utf8(Vec::content(tree)?).ok().map(Value::Text)
        }),
        8 => ("TColumn.binaryVal", |tree| Vec::content(tree).map(Value::Bytes)),
        _ => return Err(set.wrong(format_args!("a TColumn has an unknown field, number {id}"))),
    };
    let mut column = ResponseStruct::new(call, union).part(FieldName { id, name })?;
    let values: Vec<Tree> = column.required(COLUMN_VALUES)?;
    // Bit i, that is bit i % 8 of byte i / 8, tells that row i is NULL; missing bytes are zero.
    let nulls: Vec<u8> = column.required(COLUMN_NULLS)?;
    let is_null = |row: usize| nulls.get(row / 8).is_some_and(|bits| bits >> (row % 8) & 1 == 1);
    let values = values.into_iter().enumerate().map(|(row, tree)| {
        if is_null(row) {
            return Ok(Value::Null);
        }
        let kind = tree.kind();
        value(tree).ok_or_else(|| match (id, kind) {
            (7, TType::String) => column.wrong(format_args!("{name} is not UTF-8 in row {row}")),
            _ => column.wrong(format_args!("{name} has a value of type {kind} in row {row}")),
        })
    });
    values.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A TColumn: its field, its values and the bits of those that are NULL.
    fn column(id: i16, values: Vec<Tree>, nulls: &[u8]) -> Tree {
        let column = vec![(1, Tree::List(values)), (2, Tree::Bytes(nulls.to_vec()))];
        Tree::Struct(vec![(id, Tree::Struct(column))])
    }

    fn read(columns: Vec<Tree>) -> Result<Vec<Vec<Value>>, String> {
        let set = vec![(1, Tree::I64(0)), (3, Tree::List(columns))];
        rows(ResponseStruct::new("FetchResults", set)).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn fails(columns: Vec<Tree>, text: &str) {
        let expected =
            format!("the answer is not the expected Thrift message (FetchResults: {text})");
        assert_eq!(read(columns).unwrap_err(), expected);
    }

    #[test]
    fn columns_become_rows_and_their_bits_nulls() {
        let numbers = (0..9).map(Tree::I64).collect();
        let texts = vec![Tree::text("a"); 9];
        let rows = read(vec![column(5, numbers, &[0b0000_0010, 0b1]), column(7, texts, b"")]);
        let rows = rows.unwrap();
        assert_eq!(rows.len(), 9);
        assert_eq!(rows[0], [Value::Int(0), Value::Text("a".to_owned())]);
        assert_eq!(rows[1][0], Value::Null);
        assert_eq!(rows[7][0], Value::Int(7));
        assert_eq!(rows[8][0], Value::Null);
    }

    #[test]
    fn each_type_of_column_has_its_values() {
        let columns = [
            (1, Tree::Bool(true), Value::Bool(true)),
            (2, Tree::I8(-1), Value::Int(-1)),
            (3, Tree::I16(-2), Value::Int(-2)),
            (4, Tree::I32(-3), Value::Int(-3)),
            (5, Tree::I64(-4), Value::Int(-4)),
            (6, Tree::Double(0.5), Value::Double(0.5)),
            (7, Tree::text("text"), Value::Text("text".to_owned())),
            (8, Tree::Bytes(vec![0xff]), Value::Bytes(vec![0xff])),
        ];
        for (id, sent, expected) in columns {
            assert_eq!(read(vec![column(id, vec![sent], b"")]).unwrap(), [[expected]]);
        }
        assert_eq!(read(Vec::new()).unwrap(), Vec::<Vec<Value>>::new());
    }

    #[test]
    fn columns_of_different_length_are_no_rows() {
        let numbers = |count| column(5, vec![Tree::I64(1); count], b"");
        fails(vec![numbers(1), numbers(2)], "the columns of a result differ in length");
    }

    #[test]
    fn what_is_wrong_with_a_column_is_said() {
        let bytes = |bytes: &[u8]| vec![Tree::Bytes(bytes.to_vec())];
        fails(vec![Tree::I32(1)], "a TColumn has type i32 instead of struct");
        fails(vec![Tree::Struct(Vec::new())], "a TColumn has 0 fields instead of 1");
        let two = vec![(5, Tree::Bool(true)), (6, Tree::Bool(true))];
        fails(vec![Tree::Struct(two)], "a TColumn has 2 fields instead of 1");
        fails(vec![column(9, Vec::new(), b"")], "a TColumn has an unknown field, number 9");
        let number = Tree::Struct(vec![(5, Tree::I64(1))]);
        fails(vec![number], "TColumn.i64Val has type i64 instead of struct");
        let empty = Tree::Struct(vec![(5, Tree::Struct(Vec::new()))]);
        fails(vec![empty], "TColumn.*.values is missing");
        let text = "TColumn.i64Val has a value of type string in row 0";
        fails(vec![column(5, bytes(b"5"), b"")], text);
        let text = "TColumn.stringVal is not UTF-8 in row 0";
        fails(vec![column(7, bytes(b"\xff"), b"")], text);
    }
}
