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
fn text_is_refused_and_the_numbers_beside_it_are_taken() {
    for (line, shown) in [
        (
            r#"m a=1,s="some, text= with \"quotes\" \\",b=2 1465839830000000000"#,
            "m:a Gauge 1 @1465839830, m:b Gauge 2 @1465839830, ! text_value",
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
        ("m =1", "! not_line_protocol"),
        ("m f=1 1465839830000000000 2", "! not_line_protocol"),
        ("m f=1 yesterday", "! bad_time"),
        ("m f=1 1465839830.5", "! bad_time"),
        ("m f=", "! no_value"),
        ("m f=one", "! bad_number"),
        ("m f=1.5i", "! bad_number"),
        ("m f=-1u", "! bad_number"),
        ("m f=9223372036854775808i", "! bad_number"),
        ("m f=NaN", "! not_a_number"),
        ("m f=inf", "! infinite"),
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
        ("sold count=1i,_end=1430701290i", "! bad_time"),
        ("sold count=1i,_start=1430701290i 1430701290", "! empty_interval"),
        ("sold count=1i,_start=x 1430701290", "! bad_time"),
        ("sold x_start=1 1430701290", "sold:x_start Gauge 1 @1430701290"),
    ] {
        assert_eq!(seconds(line), shown, "{line}");
    }
}
