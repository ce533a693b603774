//! go vet and go test. golangci-lint is no package that could be had here: a program of that name
//! prints what it prints.

use becket_tests::skip::skip;
use becket_tests::tools::go;
use becket_tests::world::write_program;

use super::Project;

const GOOD: &str = "package price\n\nimport \"strconv\"\n\nfunc Price(cents int) string {\n\treturn strconv.Itoa(cents)\n}\n";
const TEST: &str = "package price\n\nimport \"testing\"\n\nfunc TestThree(t *testing.T) {\n\tif Price(3) != \"3\" {\n\t\tt.Errorf(\"got %q\", Price(3))\n\t}\n}\n";

fn files() -> [(&'static str, &'static str); 4] {
    [
        ("go.mod", "module example.com/shop\n\ngo 1.21\n"),
        ("price/price.go", GOOD),
        ("price/price_test.go", TEST),
        ("other/other.go", "package other\n"),
    ]
}

#[test]
fn vet_and_test() {
    let programs = match go() {
        Ok(programs) => programs,
        Err(why) => return skip("builtin::go::vet_and_test", &why),
    };
    // What is compiled once serves the next run too.
    let cache = programs.join("../../build-cache");
    let root = programs.join("..");
    let project = Project::new(&files())
        .with_path(&programs)
        .with("GOCACHE", cache)
        .with("GOROOT", root);
    let project = project
        .with("GOTOOLCHAIN", "local".into())
        .with("GOPROXY", "off".into());
    assert_eq!(project.edit("typecheck-changed", "price/price.go"), "");
    assert_eq!(project.edit("test-changed", "price/price.go"), "");
    project.write(
        "price/price.go",
        &GOOD.replace("return strconv.Itoa(cents)", "return strconv.Itoa(\"3\")"),
    );
    let told = project.edit("typecheck-changed", "price/price.go");
    assert!(told.starts_with("1 new problem in price/price.go (go vet, from PATH)\nprice/price.go:6:22: cannot use \"3\""), "{told}");
    assert_eq!(project.edit("typecheck-changed", "other/other.go"), "");
    assert!(
        project
            .stop("typecheck-project")
            .contains("price/price.go:6:22: cannot use")
    );

    project.write(
        "price/price.go",
        &GOOD.replace("Itoa(cents)", "Itoa(cents + 1)"),
    );
    assert_eq!(
        project.edit("test-changed", "price/price.go"),
        "1 new failure in the tests of price/price.go (go test, from PATH)\nTestThree: price_test.go:7: got \"4\""
    );
    assert_eq!(
        project.stop("test-project"),
        "1 problem (go test, from PATH)\nTestThree: price_test.go:7: got \"4\""
    );
}

#[test]
fn golangci_lint() {
    let project = Project::new(&files());
    let program = project.world.programs.join("golangci-lint");
    let script = "[ \"$*\" = 'run --color never ./price' ] || exit 3\n\
                  printf 'price/price.go:6:2: wrong (govet)\\n\\tfmt\\n\\t^\\nother/other.go:1:1: too (govet)\\n2 issues:\\n'\nexit 1";
    write_program(&program, script);
    assert_eq!(
        project.edit("lint-changed", "price/price.go"),
        "1 new problem in price/price.go (golangci-lint, from PATH)\nprice/price.go:6:2: wrong (govet)"
    );
}
