use super::super::tests::read;
use super::*;

fn influx(line: &str) -> String {
    read(Influx::new(Kind::Gauge, Precision::Nanoseconds), line).join(", ")
}

#[test]
fn lines_of_the_documentation() {
    for (line, shown) in [
        (
            "mymeas,mytag1=1,mytag2=2 myfield=42.5 1556813561098000000",
            "mymeas:myfield{mytag1=1,mytag2=2} Gauge 42.5 @1556813561.098",
        ),
        (
            "weather,location=us-midwest temperature=82,humidity=71i 1465839830100400200",
            "weather:temperature{location=us-midwest} Gauge 82 @1465839830.1004, \
             weather:humidity{location=us-midwest} Gauge 71 @1465839830.1004",
        ),
        ("m f=1u 1465839830000000000", "m:f Gauge 1 @1465839830"),
        ("m f=-1.25e+2 1465839830000000000", "m:f Gauge -125 @1465839830"),
        ("m f=1 -9223372036854775808", "m:f Gauge 1 @-9223372036.854776"),
        ("m f=true,g=F 1465839830000000000", "m:f Gauge 1 @1465839830, m:g Gauge 0 @1465839830"),
        ("m f=1i", "m:f Gauge 1 @1767225600"),
        (
            r"my\ measurement,tag\ key\,one=tag\=value field\ key=1 1465839830000000000",
            "my measurement:field key{tag key,one=tag=value} Gauge 1 @1465839830",
        ),
        (
            r"wea\,ther,location=us\,midwest temperature=82 1465839830000000000",
            "wea,ther:temperature{location=us,midwest} Gauge 82 @1465839830",
        ),
        (
            r"m,path=C:\windows\x f=1 1465839830000000000",
            r"m:f{path=C:\windows\x} Gauge 1 @1465839830",
        ),
        ("m,t=🍭 f=1 1465839830000000000", "m:f{t=🍭} Gauge 1 @1465839830"),
    ] {
        assert_eq!(influx(line), shown, "{line}");
    }
}

#[test]
fn text_is_left_out_and_the_numbers_beside_it_are_taken() {
    for (line, shown) in [
        (
            r#"m a=1,s="some, text= with \"quotes\" \\",b=2 1465839830000000000"#,
            "m:a Gauge 1 @1465839830, m:b Gauge 2 @1465839830",
        ),
        (r#"m s="" 1465839830000000000"#, "! text_value"),
        (r#"m s="open 1465839830000000000"#, "! open_quote"),
        (r#"m s="closed"x 1465839830000000000"#, "! open_quote"),
        (r#"m s="ends in a backslash\" 1465839830000000000"#, "! open_quote"),
    ] {
        assert_eq!(influx(line), shown, "{line}");
    }
}

#[test]
fn a_quote_after_an_escaped_equals_sign_opens_nothing() {
    assert_eq!(influx(r#"m a\="=1 1465839830000000000"#), r#"m:a=" Gauge 1 @1465839830"#);
}

#[test]
fn malformed_lines_have_their_reason() {
    for (line, shown) in [
        ("m", "! not_line_protocol"),
        ("m f", "! not_line_protocol"),
        (",t=v f=1", "! empty_name"),
        ("m f=1,", "! not_line_protocol"),
        ("m f=1, ", "! not_line_protocol"),
        ("m a,b=1 0", "! not_line_protocol"),
        ("m v=42i,fi,f=4", "! not_line_protocol"),
        ("m f=1,g=x,h=2 1465839830000000000", "! bad_number"),
        ("m f=+1", "! bad_number"),
        ("m f=1 +5", "! bad_time"),
        ("m,t=v", "! not_line_protocol"),
        ("m,t=v,", "! bad_tag"),
        ("m, f=1", "! bad_tag"),
        ("m\tf=1", "! control_character"),
        ("\tm f=1", "! control_character"),
        ("m f\t=1", "! control_character"),
        ("m s=\"only text\"", "! text_value"),
        ("m _start=5", "! no_value"),
        ("m =1", "! not_line_protocol"),
        ("m f=1 1465839830000000000 2", "! not_line_protocol"),
        ("m f=1 yesterday", "! bad_time"),
        ("m f=1 1465839830.5", "! bad_time"),
        ("m f=", "! no_value"),
        ("m f=one", "! bad_number"),
        ("m f=1.5i", "! bad_number"),
        ("m f=-1u", "! bad_number"),
        ("m f=9223372036854775808i", "! bad_number"),
        ("m f=NaN", "! bad_number"),
        ("m f=-inf", "! bad_number"),
        ("m f=1e999", "! infinite"),
        ("m,t f=1", "! bad_tag"),
        ("m,t=a=b f=1", "! bad_tag"),
        ("m,t= f=1", "! empty_name"),
        ("m,t=a,t=b f=1", "! duplicate_tag"),
        ("m f=1 9223372036854775807", "! future"),
    ] {
        assert_eq!(influx(line), shown, "{line}");
    }
}

#[test]
fn an_indented_comment_is_a_comment() {
    assert_eq!(influx("  #m v=1"), "");
}

#[test]
fn a_line_end_in_a_quoted_text_invents_no_series() {
    let lines =
        "m v=1,s=\"x\ncpu,h=evil v=100\n\" 1465839830000000000\nm v=2 1465839831000000000\n";
    assert_eq!(influx(lines), "m:v Gauge 1 @1465839830, m:v Gauge 2 @1465839831");
}

#[test]
fn a_quote_that_nothing_closes_costs_its_line_alone() {
    let lines = "m v=1,s=\"x 5\nm v=2 1465839831000000000\n";
    assert_eq!(influx(lines), "! open_quote, m:v Gauge 2 @1465839831");
}

#[test]
fn of_a_field_that_is_there_twice_the_last_value_is_taken() {
    assert_eq!(
        influx("m f=1,g=5,f=2 1465839830000000000"),
        "m:g Gauge 5 @1465839830, m:f Gauge 2 @1465839830"
    );
    let twice = "sold n=1i,n=2i,_start=1430701280i 1430701290";
    assert_eq!(
        read(Influx::new(Kind::Gauge, Precision::Seconds), twice),
        ["sold:n Count 2 1430701280..1430701290"]
    );
}

#[test]
fn start_and_end_make_intervals() {
    let seconds = |line: &str| read(Influx::new(Kind::Gauge, Precision::Seconds), line).join(", ");
    for (line, shown) in [
        (
            "sold,shop=a count=75i,price=2.5,_start=1430701280i,_end=1430701290i",
            "sold:count{shop=a} Count 75 1430701280..1430701290, \
             sold:price{shop=a} Level 2.5 1430701280..1430701290",
        ),
        (
            "sold count=75u,_start=1430701280 1430701290",
            "sold:count Count 75 1430701280..1430701290",
        ),
        (
            "sold count=-75i,_start=1430701280i 1430701290",
            "sold:count Count -75 1430701280..1430701290",
        ),
        ("sold up=t,_start=1430701280i 1430701290", "sold:up Level 1 1430701280..1430701290"),
        ("sold count=1i,price=x,_start=1430701280i 1430701290", "! bad_number"),
        ("sold count=1i,_end=1430701290i", "! bad_time"),
        ("sold count=1i,_start=1430701290i 1430701290", "! empty_interval"),
        ("sold count=1i,_start=x 1430701290", "! bad_time"),
        ("sold x_start=1 1430701290", "sold:x_start Gauge 1 @1430701290"),
    ] {
        assert_eq!(seconds(line), shown, "{line}");
    }
}

#[test]
fn common_tags_become_a_part_of_every_line_and_of_nothing_else() {
    let tags = CommonTags::new([("_db", "a b,c=\\d"), ("_rp", "x")]).unwrap();
    let added = r",_db=a\ b\,c\=\d,_rp=x";
    let text = concat!(
        "cpu,host=a v=1 5\n",
        "# a comment\n",
        "\n",
        "  disk\\ 1 v=2\r\n",
        "note s=\"x\nmem v=3\",v=4\n",
        "broken\n",
        ",v=1\n",
        "last v=5",
    );
    let wanted = format!(
        "cpu{added},host=a v=1 5\n# a comment\n\n  disk\\ 1{added} v=2\nnote{added} s=\"x\nmem \
         v=3\",v=4\nbroken\n,v=1\nlast{added} v=5\n"
    );
    let tagged = tags.add(text.as_bytes(), 1 << 20).unwrap();
    assert_eq!(String::from_utf8_lossy(&tagged), wanted);
    assert_eq!(tags.remove(&format!("cpu{added},host=a v=1 5")), "cpu,host=a v=1 5");
    assert_eq!(tags.add(text.as_bytes(), wanted.len() - 1), None);
    let longest = format!("a s=\"{}\"\n", "x".repeat(LINE_MAX - 6));
    assert_eq!(tags.add(longest.as_bytes(), 1 << 20), None);
    assert_eq!(CommonTags::new([("_db", "a\nb")]), Err(Malformed::ControlCharacter));
    assert_eq!(CommonTags::new([("_db", "a\\")]), Err(Malformed::BadTag));
    assert!(CommonTags::new([]).unwrap().is_empty());
}
