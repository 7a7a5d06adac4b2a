module lowertrace

go 1.26
