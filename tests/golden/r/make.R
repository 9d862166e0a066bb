# Made with R's haven and foreign, from data of our own: what their users have on their disks.
library(haven)
set.seed(7)
n <- 60
income <- round(rlnorm(n, 7, 0.5), 2)
income[c(3, 17)] <- -9
tax <- round(0.2 * income + rnorm(n, 0, 20), 2)
tax[5] <- NA
household <- data.frame(
  id = sprintf("h%03d", 1:n),
  region = labelled(sample(c(1, 2, 3), n, TRUE), c(North = 1, South = 2, East = 3), label = "Region of the household"),
  size = labelled_spss(as.integer(sample(c(1:6, 99), n, TRUE)), na_values = 99, label = "Persons"),
  income = labelled_spss(income, c(Refused = -9), na_values = -9, label = "Net income, a month"),
  tax = structure(tax, label = "Income tax"),
  day = as.Date("2024-01-01") + sample(0:300, n, TRUE),
  stringsAsFactors = FALSE
)
write_sav(household, "haven.sav")
write_sav(household, "haven.zsav", compress = "zsav")
plain <- household
plain$size <- as.integer(zap_missing(plain$size)); plain$income <- as.numeric(zap_labels(zap_missing(plain$income)))
write_dta(plain, "haven_14.dta", version = 14)
write_dta(plain, "haven_8.dta", version = 8)
write_xpt(plain, "haven.xpt", version = 8)
simple <- data.frame(region = factor(c("North", "South", "East"))[as.integer(plain$region)], size = plain$size, income = plain$income, tax = as.numeric(plain$tax))
foreign::write.dta(simple, "foreign.dta")
write.csv(simple, "write.csv", row.names = FALSE)
write.csv2(simple, "write2.csv", row.names = FALSE)
write.table(simple, "write.tsv", sep = "\t", row.names = FALSE)
options(digits = 17)
write.csv(data.frame(size = simple$size, income = sprintf("%.17g", simple$income), tax = sprintf("%.17g", simple$tax), region = as.character(simple$region)), "values.csv", row.names = FALSE, quote = FALSE)
cat(R.version.string, as.character(packageVersion("haven")), as.character(packageVersion("foreign")), "\n")
