//! The names of all series, to be found by path, by tag, and node by node.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Glob, GraphiteError, Selection, TagExpression};

/// A name with its tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The path without tags.
    pub name: String,
    /// `name;tag=value`, with the tags in order.
    pub full: String,
    /// The tags, including `name`.
    pub tags: BTreeMap<String, String>,
    /// The number of the series in its store.
    pub id: i64,
}

impl Entry {
    /// An entry for a name with tags other than `name`.
    pub fn new(name: &str, tags: &BTreeMap<String, String>, id: i64) -> Entry {
        let mut full = name.to_owned();
        for (tag, value) in tags {
            full.push(';');
            full.push_str(tag);
            full.push('=');
            full.push_str(value);
        }
        let mut tags = tags.clone();
        tags.insert("name".to_owned(), name.to_owned());
        Entry { name: name.to_owned(), full, tags, id }
    }
}

/// A node of the tree of paths.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Node {
    /// The path up to and including this node.
    pub path: String,
    /// Whether a series has this path.
    pub is_leaf: bool,
    /// Whether there are longer paths.
    pub has_children: bool,
}

impl Node {
    /// The last part of its path.
    pub fn text(&self) -> &str {
        self.path.rsplit('.').next().unwrap_or(&self.path)
    }
}

/// All names, sorted.
#[derive(Clone, Debug, Default)]
pub struct Index {
    entries: Vec<Entry>,
}

impl Index {
    /// An index of these entries.
    pub fn new(mut entries: Vec<Entry>) -> Index {
        entries.sort_by(|a, b| (&a.name, &a.full, a.id).cmp(&(&b.name, &b.full, b.id)));
        Index { entries }
    }

    /// All entries, sorted by name.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entries whose name begins with `prefix`.
    fn beginning(&self, prefix: &str) -> &[Entry] {
        let from = self.entries.partition_point(|entry| entry.name.as_str() < prefix);
        let rest = &self.entries[from..];
        let count = rest.partition_point(|entry| entry.name.starts_with(prefix));
        &rest[..count]
    }

    /// The series of a path with wildcards. Without tags in the pattern (`;tag=value`), series with
    /// any tags match.
    ///
    /// # Errors
    /// Those of [`Glob::new`].
    pub fn by_path(&self, pattern: &str) -> Result<Vec<&Entry>, GraphiteError> {
        let tagged = pattern.contains(';');
        let glob = Glob::new(pattern)?;
        let prefix = glob.prefix().split(';').next().unwrap_or_default();
        let some = self.beginning(prefix).iter();
        Ok(some.filter(|e| glob.matches(if tagged { &e.full } else { &e.name })).collect())
    }

    /// The selected series.
    ///
    /// # Errors
    /// Those of [`Index::by_path`] and [`Index::by_tags`].
    pub fn select(&self, selection: &Selection<'_>) -> Result<Vec<&Entry>, GraphiteError> {
        match selection {
            Selection::Path(pattern) => self.by_path(pattern),
            Selection::Tags(expressions) => self.by_tags(expressions),
        }
    }

    /// The series that match all expressions.
    ///
    /// # Errors
    /// [`GraphiteError::Pattern`] unless one expression requires its tag.
    pub fn by_tags(&self, expressions: &[TagExpression]) -> Result<Vec<&Entry>, GraphiteError> {
        if !expressions.iter().any(TagExpression::requires_tag) {
            return Err(GraphiteError::Pattern {
                text: "seriesByTag".to_owned(),
                what: "selection",
                cause: "at least one expression must require a tag, such as name=~.".to_owned(),
            });
        }
        let matches = |entry: &&Entry| expressions.iter().all(|e| e.matches(&entry.tags));
        Ok(self.entries.iter().filter(matches).collect())
    }

    /// The nodes of a pattern: as many nodes deep as the pattern, sorted by path.
    ///
    /// # Errors
    /// Those of [`Glob::new`].
    pub fn nodes(&self, pattern: &str) -> Result<Vec<Node>, GraphiteError> {
        let glob = Glob::new(pattern)?;
        let mut nodes: Vec<Node> = Vec::new();
        for entry in self.beginning(glob.prefix()) {
            let end = entry.name.match_indices('.').nth(glob.nodes() - 1).map(|(at, _)| at);
            let path = &entry.name[..end.unwrap_or(entry.name.len())];
            if !glob.matches(path)
                || (end.is_none() && entry.name.split('.').count() < glob.nodes())
            {
                continue;
            }
            let is_leaf = end.is_none();
            match nodes.iter_mut().rev().take(2).find(|node| node.path == path) {
                Some(node) => {
                    node.is_leaf |= is_leaf;
                    node.has_children |= !is_leaf;
                }
                None => nodes.push(Node { path: path.to_owned(), is_leaf, has_children: !is_leaf }),
            }
        }
        // `a-b` stands between `a` and `a.b`, so equal nodes need not be neighbours.
        nodes.sort();
        nodes.dedup_by(|later, first| {
            let same = later.path == first.path;
            if same {
                first.is_leaf |= later.is_leaf;
                first.has_children |= later.has_children;
            }
            same
        });
        Ok(nodes)
    }

    /// The tags of all series that match, except those in the expressions, that begin with
    /// `prefix`; at most `limit`.
    pub fn tags(&self, expressions: &[TagExpression], prefix: &str, limit: usize) -> Vec<String> {
        let mut tags: BTreeSet<&str> = BTreeSet::new();
        for entry in self.matching(expressions) {
            for tag in entry.tags.keys().map(String::as_str) {
                let used = expressions.iter().any(|e| e.tag() == tag);
                if !used && tag.starts_with(prefix) {
                    tags.insert(tag);
                }
            }
        }
        tags.into_iter().take(limit).map(str::to_owned).collect()
    }

    /// The values of a tag of all series that match, with the number of series, that begin with
    /// `prefix`; at most `limit`.
    pub fn values(
        &self,
        tag: &str,
        expressions: &[TagExpression],
        prefix: &str,
        limit: usize,
    ) -> Vec<(String, usize)> {
        let mut values: BTreeMap<&str, usize> = BTreeMap::new();
        for entry in self.matching(expressions) {
            if let Some(value) = entry.tags.get(tag).filter(|value| value.starts_with(prefix)) {
                *values.entry(value).or_default() += 1;
            }
        }
        values.into_iter().take(limit).map(|(value, count)| (value.to_owned(), count)).collect()
    }

    fn matching<'i>(
        &'i self,
        expressions: &'i [TagExpression],
    ) -> impl Iterator<Item = &'i Entry> + 'i {
        self.entries.iter().filter(|entry| expressions.iter().all(|e| e.matches(&entry.tags)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index() -> Index {
        let plain = ["a.b.c", "a.b.d", "a.b", "a-b.c", "x"];
        let mut entries: Vec<Entry> = plain
            .iter()
            .zip(1..)
            .map(|(name, id)| Entry::new(name, &BTreeMap::new(), id))
            .collect();
        let tags = |host: &str| [("host".to_owned(), host.to_owned())].into();
        entries.push(Entry::new("disk.used", &tags("web1"), 10));
        entries.push(Entry::new("disk.used", &tags("web2"), 11));
        Index::new(entries)
    }

    fn names(found: Vec<&Entry>) -> Vec<&str> {
        found.into_iter().map(|entry| entry.full.as_str()).collect()
    }

    #[test]
    fn series_are_found_by_path_and_by_tag() {
        let index = index();
        assert_eq!(names(index.by_path("a.b.*").unwrap()), ["a.b.c", "a.b.d"]);
        assert_eq!(names(index.by_path("a.b").unwrap()), ["a.b"]);
        assert_eq!(index.by_path("disk.*").unwrap().len(), 2);
        assert_eq!(names(index.by_path("disk.used;host=web2").unwrap()), ["disk.used;host=web2"]);
        assert_eq!(index.by_path("*.used;host=web*").unwrap().len(), 2);
        let by_tags = |texts: &[&str]| {
            let expressions: Vec<TagExpression> =
                texts.iter().map(|text| TagExpression::parse(text).unwrap()).collect();
            index.by_tags(&expressions).map(names).map_err(|error| error.to_string())
        };
        assert_eq!(by_tags(&["name=disk.used", "host!=web1"]).unwrap(), ["disk.used;host=web2"]);
        assert_eq!(
            by_tags(&["host=~.*"]).unwrap_err(),
            "'seriesByTag' is not a valid selection: at least one expression must require a tag, \
             such as name=~."
        );
    }

    #[test]
    fn nodes_are_leaves_or_have_children_or_both() {
        let index = index();
        let nodes = |pattern: &str| -> Vec<(String, bool, bool)> {
            let nodes = index.nodes(pattern).unwrap().into_iter();
            nodes.map(|node| (node.path, node.is_leaf, node.has_children)).collect()
        };
        let node = |path: &str, leaf, children| (path.to_owned(), leaf, children);
        assert_eq!(
            nodes("*"),
            [
                node("a", false, true),
                node("a-b", false, true),
                node("disk", false, true),
                node("x", true, false)
            ]
        );
        assert_eq!(nodes("a.*"), [node("a.b", true, true)]);
        assert_eq!(nodes("a.b.{c,e}"), [node("a.b.c", true, false)]);
        assert_eq!(nodes("x.*"), []);
    }

    #[test]
    fn tags_and_values_are_completed() {
        let index = index();
        assert_eq!(index.tags(&[], "", 10), ["host", "name"]);
        let host = [TagExpression::parse("host=web1").unwrap()];
        assert_eq!(index.tags(&host, "", 10), ["name"]);
        assert_eq!(index.values("host", &[], "web", 1), [("web1".to_owned(), 1)]);
        assert_eq!(index.values("name", &host, "", 9), [("disk.used".to_owned(), 1)]);
    }
}
